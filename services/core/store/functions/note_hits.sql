-- Records hard bounces and complaints that providers reported, for the brakes of their channels, in the transaction that stores
-- the reports and after what they changed; each by its message, with the time at which that became final. A message that is not
-- final yet counts as final now.
create or replace function note_hits(seqs bigint[], days date[], causes text[]) returns void
language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  insert into usage_moves (at, purge_on, tells, seqs, account_ids, final_at)
  select clock_timestamp(), u.day, u.cause, array_agg(u.seq), array_agg(coalesce(r.account_id, l.account_id)),
    array_agg(coalesce(r.completed_at, clock_timestamp()))
  from unnest(seqs, days, causes) as u (seq, day, cause)
  -- `= any (array[…])` instead of `=`: for an equality of columns the planner may choose a join that reads the whole index.
  left join message_results r on r.seq = any (array[u.seq]) and r.purge_on = any (array[u.day])
  left join live_messages l on l.seq = any (array[u.seq])
  group by u.day, u.cause
$$;

grant execute on function note_hits(bigint[], date[], text[]) to despatch_worker;
