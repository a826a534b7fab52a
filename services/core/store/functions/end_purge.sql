-- Deletes what `purge_some` leaves, the tenant's own row last. The tenant's key must have been destroyed before. Returns whether
-- the tenant is gone too.
create or replace function end_purge(of_slug text, of_uid text) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
declare
  who uuid;
  people uuid[];
begin
  select t.id into who from tenants t where t.slug = of_slug and t.owner_uid = of_uid and t.status = 'deleting' for update;
  if who is null then
    return true;
  end if;
  perform lock_counters('accepted', array[who]);
  -- Messages whose acceptance was under way when the purge began have been stored since.
  if exists (select from messages m where m.tenant_id = who) then
    return false;
  end if;
  -- Of messages whose records are gone. Before the counters, because those who settle messages lock these rows first.
  perform from live_messages l where l.tenant_id = who order by l.seq for update;
  delete from live_messages l where l.tenant_id = who;
  delete from counter_locks c where c.owner = who
    or c.owner in (select p.id from provider_accounts p where p.tenant_id = who);
  delete from rate_windows r where r.subject = who or r.subject in (select k.id from api_keys k where k.tenant_id = who);
  delete from account_rates r where r.account_id in (select p.id from provider_accounts p where p.tenant_id = who);
  delete from lookup_turns t where t.account_id in (select p.id from provider_accounts p where p.tenant_id = who);
  delete from awaited_receipts a where a.tenant_id = who;
  delete from lookups l where l.tenant_id = who;
  -- Waits for a worker that is parsing one of these calls: the receipts that it stores are deleted below.
  delete from receipt_calls c where c.account_id in (select p.id from provider_accounts p where p.tenant_id = who);
  delete from receipts r where r.tenant_id = who;
  -- Keys of people's last requests: a transaction that writes an audit log entry holds the tenant's row, so no more can follow.
  delete from idempotency_keys k where k.tenant_id = who;
  -- Contents of messages that were never accepted.
  delete from message_contents c using unsettled_contents u
  where u.tenant_id = who and c.message_seq = u.message_seq and c.purge_on = u.purge_on;
  delete from unsettled_contents u where u.tenant_id = who;
  perform purge_endpoints(array(select w.id from webhook_endpoints w where w.tenant_id = who));
  delete from endpoint_tests t where t.tenant_id = who;
  delete from webhook_keys k where k.tenant_id = who;
  delete from audit_log a where a.tenant_id = who;
  select array_agg(m.user_id) into people from members m where m.tenant_id = who;
  delete from tenant_usage u where u.tenant_id = who;
  delete from tenant_progress p where p.tenant_id = who;
  delete from suppressions s where s.tenant_id = who;
  -- Waits for concurrent changes of accounts; their events are in `tenant_events`, deleted below.
  delete from provider_accounts p where p.tenant_id = who;
  -- Near the end and held briefly, because no tenant's events are numbered meanwhile. No pass runs between this lock and the end
  -- of the transaction, so none can leave rows of the tenant's feed behind.
  perform pg_advisory_xact_lock(hashtext('despatch.feed'));
  delete from feed f where f.tenant_id = who;
  delete from feed_heads f where f.tenant_id = who;
  delete from tenant_events e where e.tenant_id = who;
  -- Usage is not counted meanwhile either; a pass that began before the purge has ended by then.
  perform pg_advisory_xact_lock(hashtext('despatch.usage'));
  delete from usage_counts u where u.tenant_id = who;
  delete from usage_times u where u.tenant_id = who;
  delete from account_counts c where c.tenant_id = who;
  delete from tenants t where t.id = who;
  -- A user who was only named and has never signed in is deleted with the last tenant that named them. Users who are signing in
  -- right now, or are being named by another tenant, are locked and stay.
  people := array(select u.id from users u where u.id = any (people) and not u.has_signed_in for update skip locked);
  delete from users u where u.id = any (people) and not exists (select from members m where m.user_id = u.id);
  return true;
end $$;

grant execute on function end_purge(text, text) to despatch_controller;
