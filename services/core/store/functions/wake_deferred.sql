-- Makes messages that wait for this account to be fixed due at once. Those that are due already need nothing: a lane may hold
-- millions of them, and none is read.
create or replace function wake_deferred(for_account uuid) returns void
language sql set search_path = despatch, pg_temp set enable_seqscan = off as $$
  update live_messages l set next_attempt_at = clock_timestamp(), due_at = clock_timestamp()
  where l.status = 'deferred' and l.seq = any (array(
    -- In the order in which other transactions lock the same rows, to avoid deadlocks; by an expression, because for the plain
    -- column the planner could read the whole index of that order.
    select w.seq from (values (0::smallint), (1::smallint), (2::smallint)) as p (priority)
    join live_messages w on w.priority = p.priority
    where w.tenant_id = (select p.tenant_id from provider_accounts p where p.id = for_account)
      and w.account_id = for_account and w.due_at > now() and w.due_at < 'infinity'
      and w.status = 'deferred' and w.reason = 'provider_not_ready'
    order by w.seq + 0 for update of w))
$$;
