create or replace function rate_count(w rate_windows, calls integer) returns rate_windows
language plpgsql immutable as $$
declare
  slot integer := (w.second % 61)::integer + 1;
begin
  w.counts[slot] := w.counts[slot] + calls;
  w.total := w.total + calls;
  return w;
end $$;
