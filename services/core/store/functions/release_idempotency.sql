create or replace function release_idempotency(scopes bytea[]) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  delete from idempotency_keys k
  where k.scope = any (scopes) and k.status is null
    and k.generation in (idempotency_generation(clock_timestamp()), idempotency_generation(clock_timestamp()) - 7)
$$;

grant execute on function release_idempotency(bytea[]) to despatch_api;
