-- Stores the response that later calls with the same key get. Only successes are stored.
create or replace function store_idempotent_response(scopes bytea[], statuses smallint[], responses json[], nonces bytea[])
returns void language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  update idempotency_keys k set status = u.status, response = u.response, nonce = u.nonce
  from unnest(scopes, statuses, responses, nonces) as u (scope, status, response, nonce)
  where k.scope = u.scope
    and k.generation in (idempotency_generation(clock_timestamp()), idempotency_generation(clock_timestamp()) - 7)
$$;

grant execute on function store_idempotent_response(bytea[], smallint[], json[], bytea[]) to despatch_api;
