-- Stores the health of an account as a worker's breaker sees it. Each worker has a breaker of its own: while one probes, another
-- may have found that calls succeed. So only a probe that failed makes a healthy account `open` again.
create or replace function note_account_health(for_account uuid, to_health text) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update provider_accounts set health = to_health, updated_at = now()
  where id = for_account and health <> to_health and (to_health <> 'probing' or health = 'open')
$$;

grant execute on function note_account_health(uuid, text) to despatch_worker;
