-- Claims scopes for this transaction. Returns each scope that is already claimed, with what is stored for it; waits for a holder
-- that has not committed yet. In the first minutes of a generation the previous one is claimed too, because a transaction that
-- began before the boundary may still write there. A caller that already knows its answer stores it with the claim. Later
-- generations are checked as well: rows exist there if a clock ran ahead and was set back, and they still count. A claim of the
-- previous generation is given back if another request has claimed the scope in the current one meanwhile.
create or replace function claim_idempotency(scopes bytea[], tenants uuid[], fingerprints bytea[], answer smallint default null,
  responses json[] default null)
returns table (scope bytea, fingerprint bytea, status smallint, response json, nonce bytea)
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
declare
  current_generation date := idempotency_generation(clock_timestamp());
  previous_generation date := current_generation - 7;
  won bytea[];
  claimed_before bytea[] := '{}';
begin
  if idempotency_turning(clock_timestamp()) then
    with mine as (
      insert into idempotency_keys as k (scope, generation, tenant_id, fingerprint, status, response)
      select u.scope, previous_generation, u.tenant, u.fingerprint, answer, u.response
      from unnest(scopes, tenants, fingerprints, responses) as u (scope, tenant, fingerprint, response)
      where (select x.scope from idempotency_keys x where x.scope = u.scope and x.generation >= current_generation limit 1) is null
      order by u.scope
      on conflict do nothing returning k.scope
    )
    select coalesce(array_agg(m.scope), '{}') into won from mine m;
    claimed_before := won;
  else
    select coalesce(array_agg(u.scope), '{}') into won from unnest(scopes) as u (scope)
    -- Looked up key by key: a join planned while the table was small would scan all of it.
    where (select k.scope from idempotency_keys k where k.scope = u.scope
      and k.generation >= previous_generation and k.generation <> current_generation limit 1) is null;
  end if;
  with mine as (
    insert into idempotency_keys as k (scope, generation, tenant_id, fingerprint, status, response)
    select u.scope, current_generation, u.tenant, u.fingerprint, answer, u.response
    from unnest(scopes, tenants, fingerprints, responses) as u (scope, tenant, fingerprint, response)
    where u.scope = any (won) order by u.scope
    on conflict do nothing returning k.scope
  )
  select coalesce(array_agg(m.scope), '{}') into won from mine m;
  if cardinality(won) < cardinality(claimed_before) then
    delete from idempotency_keys k
    where k.scope = any (claimed_before) and k.scope <> all (won) and k.generation = previous_generation;
  end if;
  return query
    select distinct on (k.scope) k.scope, k.fingerprint, k.status, k.response, k.nonce
    from unnest(scopes) as u (scope)
    cross join lateral (
      select * from idempotency_keys x where x.scope = u.scope and x.generation >= previous_generation offset 0) k
    where u.scope <> all (won)
    order by k.scope, k.generation;
end $$;

grant execute on function claim_idempotency(bytea[], uuid[], bytea[], smallint, json[]) to despatch_api;
