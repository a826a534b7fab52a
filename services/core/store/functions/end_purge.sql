-- Deletes what is left, the tenant's own row last. The key must be gone by now. Says whether the tenant is gone too.
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
  perform from tenant_usage u where u.tenant_id = who for update;
  -- What was being accepted when the purge began has been stored since.
  if exists (select from messages m where m.tenant_id = who) then
    return false;
  end if;
  delete from rate_windows r where r.subject = who or r.subject in (select k.id from api_keys k where k.tenant_id = who);
  delete from account_rates r where r.account_id in (select p.id from provider_accounts p where p.tenant_id = who);
  delete from lookup_turns t where t.account_id in (select p.id from provider_accounts p where p.tenant_id = who);
  delete from awaited_receipts a where a.tenant_id = who;
  delete from lookups l where l.tenant_id = who;
  delete from receipts r where r.tenant_id = who;
  delete from receipt_calls c where c.account_id in (select p.id from provider_accounts p where p.tenant_id = who);
  -- Of messages that were never accepted.
  delete from message_contents c using unsettled_contents u
  where u.tenant_id = who and c.message_seq = u.message_seq and c.purge_on = u.purge_on;
  delete from unsettled_contents u where u.tenant_id = who;
  delete from audit_log a where a.tenant_id = who;
  select array_agg(m.user_id) into people from members m where m.tenant_id = who;
  delete from tenant_usage u where u.tenant_id = who;
  delete from tenant_progress p where p.tenant_id = who;
  delete from tenants t where t.id = who;
  -- Invitations that nobody took up go with the last tenant that made them.
  delete from users u where u.id = any (people) and u.subject is null
    and not exists (select from members m where m.user_id = u.id);
  return true;
end $$;

grant execute on function end_purge(text, text) to despatch_controller;
