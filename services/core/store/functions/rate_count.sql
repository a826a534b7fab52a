create or replace function rate_count(w rate_windows, calls integer) returns rate_windows
language plpgsql immutable as $$
begin
  w.counts[61] := w.counts[61] + calls;
  w.total := w.total + calls;
  return w;
end $$;
