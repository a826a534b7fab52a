-- Returns the seconds until one more call would pass: 1 to 61.
create or replace function rate_retry_after(w rate_windows, allowed integer) returns integer
language plpgsql immutable as $$
declare
  left_over integer := w.total;
begin
  for i in 1 .. 61 loop
    left_over := left_over - w.counts[i];
    if left_over < allowed then
      return i;
    end if;
  end loop;
  return 61;
end $$;
