create or replace function note_provider_health(for_provider uuid, to_health text) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update providers set health = to_health, updated_at = now() where id = for_provider and health <> to_health
$$;

grant execute on function note_provider_health(uuid, text) to despatch_worker;
