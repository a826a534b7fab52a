-- Makes messages that wait for this account to be fixed due at once. Those that are due already need nothing: a lane may hold
-- millions of them, and none is read.
create or replace function wake_deferred(for_account uuid) returns void
language sql set search_path = despatch, pg_temp set enable_seqscan = off as $$
  update live_messages l set next_attempt_at = clock_timestamp(), due_at = clock_timestamp()
  where l.status = 'deferred' and l.seq = any (array(
    -- In the order in which other transactions lock the same rows, to avoid deadlocks; by an expression, because for the plain
    -- column the planner could read the whole index of that order.
    select w.seq from live_messages w
    where w.account_id = for_account and w.status = 'deferred' and w.reason = 'provider_not_ready' and w.seq = any (array(
      select x.seq from (values (0::smallint), (1::smallint), (2::smallint)) as p (priority),
      -- Priority by priority: scheduled messages, which have other ones, are passed over as well.
      lateral (
        select y.seq from live_messages y
        where y.tenant_id = (select a.tenant_id from provider_accounts a where a.id = for_account)
          and y.account_id = for_account and y.priority = p.priority and y.due_at > now() and y.due_at < 'infinity'
          and y.status = 'deferred' and y.reason = 'provider_not_ready' offset 0) x))
    order by w.seq + 0 for update of w))
$$;
