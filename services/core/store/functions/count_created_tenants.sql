-- Returns how many tenants a user created, also those that have other owners now. One that another person made the user an owner of
-- does not count: that person could use up a limit on this number. Locks the user's row until the transaction ends, so that
-- concurrent requests cannot exceed the limit.
create or replace function count_created_tenants(of_user uuid) returns integer
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  perform from users u where u.id = of_user for no key update;
  return (select count(*) from tenants t where t.created_by = of_user and t.status <> 'deleted');
end $$;

grant execute on function count_created_tenants(uuid) to despatch_api;
