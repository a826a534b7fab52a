-- Claims requested credential checks. A check without a result is claimed again after 30 seconds.
create or replace function take_verifications(most integer) returns table (id uuid)
language sql security definer set search_path = despatch, pg_temp as $$
  with picked as (
    select p.id from provider_accounts p
    where p.verify_requested_at <= clock_timestamp() and p.status not in ('disabled', 'deleted')
    order by p.verify_requested_at limit most for update skip locked
  )
  update provider_accounts p set verify_requested_at = clock_timestamp() + interval '30 seconds'
  from picked where p.id = picked.id
  returning p.id
$$;

grant execute on function take_verifications(integer) to despatch_worker;
