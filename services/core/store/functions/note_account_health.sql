create or replace function note_account_health(for_account uuid, to_health text) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update provider_accounts set health = to_health, updated_at = now() where id = for_account and health <> to_health
$$;

grant execute on function note_account_health(uuid, text) to despatch_worker;
