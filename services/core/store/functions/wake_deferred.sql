-- Messages that wait for this account to be fixed are due again at once.
create or replace function wake_deferred(for_account uuid) returns void
language sql set search_path = despatch, pg_temp set enable_seqscan = off as $$
  update live_messages l set next_attempt_at = clock_timestamp(), due_at = clock_timestamp()
  from provider_accounts p
  where p.id = for_account and l.tenant_id = p.tenant_id and l.account_id = p.id and l.due_at < 'infinity'
    and l.status = 'deferred' and l.reason = 'provider_not_ready'
$$;
