-- Locks contents that are stored apart until the accept that needs them ends: `settle_contents` skips locked ones. Raises DS004 if one
-- is gone, which happens when an api was paused for so long that the content was deleted as unsettled.
create or replace function hold_contents(seqs bigint[]) returns void
language plpgsql set search_path = despatch, pg_temp set enable_seqscan = off as $$
declare
  held integer;
begin
  perform from unsettled_contents u where u.message_seq = any (seqs) order by u.message_seq for key share;
  get diagnostics held = row_count;
  if held < cardinality(seqs) then
    raise exception 'a content that was stored apart is gone' using errcode = 'DS004';
  end if;
end $$;
