-- Creates or updates the user with this issuer and subject, and binds invitations to the user's e-mail address if the issuer has
-- verified it. An address or name that is null keeps the stored one: many access tokens have neither. Members are found by the
-- stored address, so an unverified one is not stored, and removes it: it could be another person's. `entries`: the audit log
-- entries for accepted invitations, one for each tenant. Their facts name every accepted invitation, because a database that is
-- restored to an earlier time contains them again.
create or replace function sign_user_in(of_issuer text, of_subject text, of_email text, email_verified boolean, of_name text)
returns table (who uuid, entries json)
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  verified text := case when email_verified then of_email end;
  pending uuid[];
  -- From most to fewest rights. A member who is invited by e-mail too keeps or gets the role with more.
  roles constant text[] := array['owner', 'admin', 'developer', 'viewer'];
begin
  entries := '[]';
  select u.id into who from users u where u.issuer = of_issuer and u.subject = of_subject;
  if who is null then
    insert into users (issuer, subject, email, name, has_signed_in) values (of_issuer, of_subject, verified, of_name, true)
    on conflict (issuer, subject) do nothing returning users.id into who;
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
      with invited as (
        select distinct on (m.tenant_id) m.tenant_id, m.user_id, m.role, m.created_at
        from members m where m.user_id = any (pending)
        order by m.tenant_id, array_position(roles, m.role), m.created_at
      ), bound as (
        insert into members (tenant_id, user_id, role, email_known, created_at)
        select i.tenant_id, who, i.role, true, i.created_at from invited i
        on conflict (tenant_id, user_id) do update set email_known = true,
          role = roles[least(array_position(roles, members.role), array_position(roles, excluded.role))]
        returning tenant_id, role, created_at
      ), told as (
        insert into audit_log (tenant_id, actor, action, target, target_name, changes, details)
        select b.tenant_id, 'service', case when w.role <> b.role then 'member.role_changed' else 'member.joined' end, who,
          verified, jsonb_build_array(jsonb_build_object('field', 'invitation', 'from', i.user_id, 'to', null))
            || case when w.role is distinct from b.role
              then jsonb_build_array(jsonb_build_object('field', 'role', 'from', w.role, 'to', b.role)) else '[]' end,
          jsonb_build_object('role', b.role, 'since', date_trunc('milliseconds', b.created_at), 'invitations', array(
            select m.user_id from members m where m.tenant_id = b.tenant_id and m.user_id = any (pending) order by m.user_id))
        from bound b join invited i on i.tenant_id = b.tenant_id
        -- As before this statement.
        left join members w on w.tenant_id = b.tenant_id and w.user_id = who
        returning *
      )
      select coalesce(json_agg(json_build_object('id', t.id, 'seq', t.seq, 'at', t.at, 'tenantId', t.tenant_id, 'actor', t.actor,
        'action', t.action, 'target', t.target, 'requestId', null, 'facts', t.details) order by t.seq), '[]') into entries
      from told t;
      delete from users u where u.id = any (pending);
    end if;
  end if;
  return next;
end $$;

grant execute on function sign_user_in(text, text, text, boolean, text) to despatch_api;
