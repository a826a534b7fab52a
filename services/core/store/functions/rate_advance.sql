-- The window as it stands at `now_second`: what has left it is gone from `counts` and `total`. Where the clock has gone
-- back, what was counted keeps its age: under stamps of the future it would fill the window until they have come. Such a
-- window is to be stored even where nothing is counted, or it would not age before the clock is back where it was.
create or replace function rate_advance(w rate_windows, now_second bigint) returns rate_windows
language plpgsql immutable as $$
declare
  passed bigint := now_second - w.second;
begin
  if passed >= 61 then
    w.counts := array_fill(0, array[61]);
    w.total := 0;
  elsif passed > 0 then
    for i in 1 .. passed loop
      w.total := w.total - w.counts[i];
    end loop;
    w.counts := w.counts[passed + 1:] || array_fill(0, array[passed::integer]);
  end if;
  w.second := now_second;
  return w;
end $$;
