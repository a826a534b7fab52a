-- Records when keys were last used, at most once a minute per key; never in the future, which would hide later uses, whatever the
-- api's clock says.
create or replace function touch_api_keys(ids uuid[], used_at timestamptz[]) returns void
language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  insert into api_key_uses as x (api_key_id, tenant_id, last_used_at)
  select k.id, k.tenant_id, u.at
  from (select v.id, least(v.at, clock_timestamp()) as at from unnest(ids, used_at) as v (id, at)) u
  join api_keys k on k.id = u.id
  left join api_key_uses b on b.api_key_id = u.id
  where b.api_key_id is null or b.last_used_at < u.at - interval '1 minute'
  order by k.id
  on conflict (api_key_id) do update set last_used_at = excluded.last_used_at where x.last_used_at < excluded.last_used_at
$$;

grant execute on function touch_api_keys(uuid[], timestamptz[]) to despatch_api;
