-- Returns the user that the issuer knows under this subject; without a subject, a pending invitation by e-mail. Creates either if
-- it does not exist. Tenants share an invitation only if they spell the address alike: another spelling would show one of them that
-- the other invited the same person.
create or replace function invite_user(of_issuer text, of_subject text, of_email text) returns uuid
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
begin
  if of_subject is not null then
    insert into users (issuer, subject, email) values (of_issuer, of_subject, of_email)
    on conflict (issuer, subject) do update set email = coalesce(users.email, excluded.email) returning id into who;
    return who;
  end if;
  -- The lock makes the first sign-in of this address wait for the invitation. A user whom a sign-in deletes meanwhile is not found.
  select u.id into who from users u
  where u.issuer = of_issuer and u.subject is null and lower(u.email) = lower(of_email) and u.email = of_email
  limit 1 for key share;
  if who is null then
    insert into users (issuer, email) values (of_issuer, of_email) returning id into who;
  end if;
  return who;
end $$;

grant execute on function invite_user(text, text, text) to despatch_api;
