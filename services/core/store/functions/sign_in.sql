-- Creates or updates the user with this issuer and subject, and binds invitations to the user's e-mail address if the issuer has
-- verified it. An address or name that is null keeps the stored one: many access tokens have neither. Members are found by the
-- stored address, so an unverified one is not stored, and removes it: it could be another person's.
create or replace function sign_in(of_issuer text, of_subject text, of_email text, email_verified boolean, of_name text)
returns uuid
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
  verified text := case when email_verified then of_email end;
  pending uuid[];
  -- From most to fewest rights. A member who is invited by e-mail too keeps or gets the role with more.
  roles constant text[] := array['owner', 'admin', 'developer', 'viewer'];
begin
  select u.id into who from users u where u.issuer = of_issuer and u.subject = of_subject;
  if who is null then
    insert into users (issuer, subject, email, name, has_signed_in) values (of_issuer, of_subject, verified, of_name, true)
    on conflict (issuer, subject) do nothing returning id into who;
    if who is null then
      select u.id into who from users u where u.issuer = of_issuer and u.subject = of_subject;
    end if;
  else
    update users u set email = case when of_email is null then u.email else verified end, name = coalesce(of_name, u.name),
      has_signed_in = true
    where u.id = who and (not u.has_signed_in or (of_email is not null and u.email is distinct from verified)
      or u.name is distinct from coalesce(of_name, u.name));
  end if;
  if verified is not null then
    -- Locked users get no further memberships. The lock waits for invitations that are not committed yet.
    pending := array(
      select u.id from users u where u.subject is null and lower(u.email) = lower(verified) order by u.id for update);
    if cardinality(pending) > 0 then
      -- A purge locks a tenant before its members. The second lock waits for changes and removals that are not committed yet.
      perform from tenants t where t.id in (select m.tenant_id from members m where m.user_id = any (pending))
        order by t.id for key share;
      perform from members m where m.user_id = any (pending) order by m.tenant_id, m.user_id for update;
      insert into members (tenant_id, user_id, role, email_known, created_at)
      select distinct on (m.tenant_id) m.tenant_id, who, m.role, true, m.created_at
      from members m where m.user_id = any (pending)
      order by m.tenant_id, array_position(roles, m.role), m.created_at
      on conflict (tenant_id, user_id) do update set email_known = true,
        role = roles[least(array_position(roles, members.role), array_position(roles, excluded.role))];
      delete from users where id = any (pending);
    end if;
  end if;
  return who;
end $$;

grant execute on function sign_in(text, text, text, boolean, text) to despatch_api;
