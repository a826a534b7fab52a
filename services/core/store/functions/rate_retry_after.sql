-- Seconds until one more call would pass: 1 to 61.
create or replace function rate_retry_after(w rate_windows, allowed integer) returns integer
language plpgsql immutable as $$
declare
  left_over integer := w.total;
begin
  for age in reverse 60 .. 0 loop
    left_over := left_over - w.counts[((w.second - age) % 61)::integer + 1];
    if left_over < allowed then
      return 61 - age;
    end if;
  end loop;
  return 61;
end $$;
