-- Returns all tenants, newest first, for platform admins; with `of_user` only those of which the user is a member.
create or replace function list_tenants(of_user uuid, before timestamptz, before_id uuid, most integer)
returns setof tenant_facts
language sql stable security definer set search_path = despatch, pg_temp as $$
  select * from tenant_facts t
  where (of_user is null or exists (select from members m where m.tenant_id = t.id and m.user_id = of_user))
    and (before is null or (t.created_at, t.id) < (before, before_id))
  order by t.created_at desc, t.id desc limit most
$$;

grant execute on function list_tenants(uuid, timestamptz, uuid, integer) to despatch_api;
