-- The window as it stands at `now_second`: what has left it is gone from `counts` and `total`. Where the clock has gone
-- back, what was counted keeps its age: under stamps of the future it would fill the window until they have come. Such a
-- window is to be stored even where nothing is counted, or its ages would begin anew with every look.
create or replace function rate_advance(w rate_windows, now_second bigint) returns rate_windows
language plpgsql immutable as $$
declare
  slot integer;
  aged integer[];
begin
  if now_second < w.second then
    aged := array_fill(0, array[61]);
    for age in 0 .. 60 loop
      aged[((now_second - age) % 61)::integer + 1] := w.counts[((w.second - age) % 61)::integer + 1];
    end loop;
    w.counts := aged;
  elsif now_second - w.second >= 61 then
    w.counts := array_fill(0, array[61]);
    w.total := 0;
  else
    for s in w.second + 1 .. now_second loop
      slot := (s % 61)::integer + 1;
      w.total := w.total - w.counts[slot];
      w.counts[slot] := 0;
    end loop;
  end if;
  w.second := now_second;
  return w;
end $$;
