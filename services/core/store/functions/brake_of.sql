-- Returns the level of the brake in force for this account's channel; null without one, and for the simulators of test messages.
create or replace function brake_of(of_tenant uuid, of_account uuid) returns text
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select b.level from brakes b
  where b.tenant_id = of_tenant and b.level is not null
    and exists (select from provider_accounts p where p.id = of_account and p.channel = b.channel)
$$;
