-- Messages of a lane that are due and that `claim_due` will not take: of a tenant that is not active, expired, of an account
-- that cannot be used, under way for longer than their lease. What is under way in good order is put out of sight until its
-- lease is over.
create or replace function look_due(for_tenant uuid, for_account uuid, most integer) returns setof waiting_message
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  update live_messages l set due_at = l.lease_until + interval '1 second'
  where l.seq = any (array(
    select x.seq from live_messages x
    where x.tenant_id = for_tenant and x.account_id = for_account and x.due_at <= clock_timestamp()
      and x.status = 'sending' and x.lease_until > clock_timestamp()
    limit most for update skip locked));
  return query
    select w.* from waiting_message w
    where w.tenant_id = for_tenant and w.account_id = for_account and w.due_at <= clock_timestamp()
      and (w.is_lease_over or (w.status in ('queued', 'deferred') and (w.tenant_status <> 'active' or w.is_expired
        or (not w.test and (w.account_status is null or w.account_status = 'disabled')))))
    order by w.due_at limit most;
end $$;

grant execute on function look_due(uuid, uuid, integer) to despatch_worker;
