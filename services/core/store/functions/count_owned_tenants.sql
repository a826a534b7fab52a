-- Returns how many tenants a user owns or created: whoever makes another person the owner of a tenant still counts it. Locks the user's row until the transaction ends, so that concurrent requests cannot
-- exceed a limit on this number.
create or replace function count_owned_tenants(of_user uuid) returns integer
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  perform from users u where u.id = of_user for no key update;
  return (select count(*) from tenants t where t.status <> 'deleted' and t.id in (
    select c.id from tenants c where c.created_by = of_user
    union select m.tenant_id from members m where m.user_id = of_user and m.role = 'owner'));
end $$;

grant execute on function count_owned_tenants(uuid) to despatch_api;
