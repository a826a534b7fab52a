-- Returns how many tenants a user owns. Locks the user's row until the transaction ends, so that concurrent requests cannot
-- exceed a limit on this number.
create or replace function count_owned_tenants(of_user uuid) returns integer
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  perform from users u where u.id = of_user for no key update;
  return (select count(*) from members m join tenants t on t.id = m.tenant_id
    where m.user_id = of_user and m.role = 'owner' and t.status <> 'deleted');
end $$;

grant execute on function count_owned_tenants(uuid) to despatch_api;
