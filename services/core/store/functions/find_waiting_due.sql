-- Messages of a lane that are due and that `claim_due` will not take: of a tenant that is not active, of a channel that a brake holds, expired, of an account
-- that cannot be used, to a recipient that is suppressed, under way for longer than their lease. What is under way in good order is put out of sight until its
-- lease is over. `due_from`: as for `due_floor`.
create or replace function find_waiting_due(for_tenant uuid, for_account uuid, most integer, due_from float8[])
returns setof waiting_message
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  is_active boolean := exists (select from tenants t where t.id = for_tenant and t.status = 'active');
  is_usable boolean := exists (select from provider_accounts p where p.id = for_account and p.status not in ('disabled', 'deleted'));
  is_held boolean := brake_of(for_tenant, for_account) is not distinct from 'held';
  has_suppressions boolean := exists (select from suppressions s where s.tenant_id = for_tenant);
begin
  update live_messages l set due_at = l.lease_until + interval '1 second'
  where l.seq = any (array(
    select y.seq
    from (values (0::smallint), (1::smallint), (2::smallint)) as p (priority),
    lateral (
      select x.seq from live_messages x
      where x.tenant_id = for_tenant and x.account_id = for_account and x.priority = p.priority
        and x.due_at >= due_floor(due_from, p.priority) and x.due_at <= at_now
        and x.status = 'sending' and x.lease_until > at_now
      limit most for update skip locked
    ) y limit most));
  -- Picked from the narrow table alone: thousands may wait in good order.
  return query select w.* from waiting_message w where w.seq = any (array(
    select y.seq
    from (values (0::smallint), (1::smallint), (2::smallint)) as p (priority),
    lateral (
      select l.seq from live_messages l
      where l.tenant_id = for_tenant and l.account_id = for_account and l.priority = p.priority
        and l.due_at >= due_floor(due_from, p.priority) and l.due_at <= at_now
        and ((l.status = 'sending' and l.lease_until <= at_now) or (l.status in ('queued', 'deferred')
          and (not is_active or is_held or l.expires_at <= at_now or not (l.test or is_usable)
            or (has_suppressions and exists (select from suppressions_now s
              where s.address_key = l.address_key and s.tenant_id is not distinct from l.tenant_id
                and (s.scope = 'all' or l.marketing))))))
      order by l.due_at limit most
    ) y limit most));
end $$;

grant execute on function find_waiting_due(uuid, uuid, integer, float8[]) to despatch_worker;
