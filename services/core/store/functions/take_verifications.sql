-- Claims requested credential checks, tenants in turn, at most half of them of one tenant: a check of a host that never answers takes
-- seconds, and a tenant can ask for many. A check without a result is claimed again after 30 seconds.
create or replace function take_verifications(most integer) returns table (id uuid)
language sql security definer set search_path = despatch, pg_temp as $$
  with picked as (
    select p.id from provider_accounts p join (
      -- A check under way has a time in the future, and is counted first.
      select x.id, row_number() over (partition by x.tenant_id
        order by x.verify_requested_at <= clock_timestamp(), x.verify_requested_at, x.id) as nth
      from provider_accounts x
      where x.verify_requested_at is not null and x.status not in ('disabled', 'deleted')
    ) o on o.id = p.id
    where o.nth <= (most + 1) / 2 and p.verify_requested_at <= clock_timestamp() and p.status not in ('disabled', 'deleted')
    order by o.nth, p.verify_requested_at limit most for update of p skip locked
  )
  update provider_accounts p set verify_requested_at = clock_timestamp() + interval '30 seconds'
  from picked where p.id = picked.id
  returning p.id
$$;

grant execute on function take_verifications(integer) to despatch_worker;
