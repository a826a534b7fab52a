create or replace function touch_api_keys(ids uuid[], used_at timestamptz[]) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update api_keys k set last_used_at = u.at from unnest(ids, used_at) as u (id, at)
  where k.id = u.id and (k.last_used_at is null or k.last_used_at < u.at)
$$;

grant execute on function touch_api_keys(uuid[], timestamptz[]) to despatch_api;
