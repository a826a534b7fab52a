-- Deletes a user who was only named and has never signed in, if no tenant names that user any more. A user who is signing in right
-- now, or is being named by another tenant, is locked and stays.
create or replace function forget_named_user(of_user uuid) returns void
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  perform from users u where u.id = of_user and not u.has_signed_in for update skip locked;
  if found then
    delete from users u where u.id = of_user and not exists (select from members m where m.user_id = u.id);
  end if;
end $$;

grant execute on function forget_named_user(uuid) to despatch_api;
