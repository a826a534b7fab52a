-- Creates or updates the user with this issuer and subject, and binds invitations to the user's e-mail address if the issuer has
-- verified it.
create or replace function sign_in(of_issuer text, of_subject text, of_email text, email_verified boolean, of_name text)
returns uuid
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
  pending uuid[];
  -- From most to fewest rights. A member who is invited by e-mail too keeps or gets the role with more.
  roles constant text[] := array['owner', 'admin', 'developer', 'viewer'];
begin
  select u.id into who from users u where u.issuer = of_issuer and u.subject = of_subject;
  if who is null then
    insert into users (issuer, subject, email, name, has_signed_in) values (of_issuer, of_subject, of_email, of_name, true)
    on conflict (issuer, subject) do nothing returning id into who;
    if who is null then
      select u.id into who from users u where u.issuer = of_issuer and u.subject = of_subject;
    end if;
  else
    update users set email = of_email, name = of_name, has_signed_in = true
    where id = who and (email, name, has_signed_in) is distinct from (of_email, of_name, true);
  end if;
  if email_verified and of_email is not null then
    -- Locked users get no further memberships. The lock waits for invitations that are not committed yet.
    pending := array(
      select u.id from users u where u.subject is null and lower(u.email) = lower(of_email) order by u.id for update);
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
