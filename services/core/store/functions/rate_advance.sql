-- Returns the window as of `now_second`: counts that have left the window are removed from `counts` and `total`. If the clock has
-- gone back, counts keep their ages; with timestamps in the future they would fill the window until that time. The caller must
-- store such a window even if it counts nothing, because otherwise it would not age until the clock is back where it was.
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
