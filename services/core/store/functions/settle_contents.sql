-- Deletes contents whose messages were never accepted, because the api that stored them failed before it could delete them. Looks
-- only at contents that are old enough that no accept is under way, except one of an api that was paused: `accept` refuses it.
-- Returns how many contents it looked at.
create or replace function settle_contents(most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
declare
  seqs bigint[];
  days date[];
begin
  select array_agg(x.message_seq), array_agg(x.purge_on) into seqs, days from (
    select u.message_seq, u.purge_on from unsettled_contents u where u.stored_at < now() - interval '15 minutes'
    order by u.stored_at limit most for update skip locked) x;
  delete from message_contents c using unnest(seqs, days) as u (seq, day)
  where c.message_seq = u.seq and c.purge_on = u.day
    and not exists (select from messages m where m.seq = u.seq and m.purge_on = u.day);
  delete from unsettled_contents where message_seq = any (seqs);
  return coalesce(cardinality(seqs), 0);
end $$;

grant execute on function settle_contents(integer) to despatch_worker;
