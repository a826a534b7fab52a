-- The number of a message's last call without an answer; null if it has none.
create or replace function last_unanswered(seq bigint, purge_on date) returns integer language sql stable parallel safe as $$
  select max(a.number) from attempt_log a
  where a.message_seq = last_unanswered.seq and a.purge_on = last_unanswered.purge_on and a.outcome = 'ambiguous'
$$;
