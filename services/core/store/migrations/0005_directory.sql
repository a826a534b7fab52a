-- Work across tenants that the api needs: key lookup, sign-in, tenants. Each function is one question with one answer.

-- A tenant and its limits, as the api knows them; a deleted one is nobody's. Only functions of the schema see it.
create view tenant_facts with (security_invoker) as
  select t.id, t.slug, t.name, t.plan, t.status, t.suspension_reason, t.suspended_at, t.suspended_by, t.owner_ref,
    t.created_at, l.limits, l.overrides
  from tenants t left join tenant_limits l on l.tenant_id = t.id
  where t.status <> 'deleted';

create function find_tenant(by_id uuid, by_slug text) returns setof tenant_facts
language sql stable security definer set search_path = despatch, pg_temp as $$
  select * from tenant_facts t where t.id = by_id or t.slug = by_slug
$$;

-- What admitting service keys needs, for many at one look: the key, its tenant, and the accounts that messages could go
-- out through. No row where there is no such key, or its tenant is deleted.
create function find_callers(key_ids text[])
returns table (key_id text, api_key_id uuid, mode text, scopes text[], rate_limit_rpm integer, secret_hash bytea,
  previous_secret_hash bytea, grace_until timestamptz, expires_at timestamptz, revoked_at timestamptz,
  senders json, tenant tenant_facts)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select k.key_id, k.id, k.mode, k.scopes, k.rate_limit_rpm, k.secret_hash, k.previous_secret_hash, k.grace_until,
    k.expires_at, k.revoked_at,
    coalesce((select json_agg(json_build_object('id', p.id, 'channel', p.channel, 'provider', p.provider)) from providers p
      where p.tenant_id = k.tenant_id and p.status not in ('disabled', 'deleted')), '[]'),
    t
  from api_keys k join tenant_facts t on t.id = k.tenant_id
  where k.key_id = any (key_ids)
$$;

create function touch_api_keys(ids uuid[], used_at timestamptz[]) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update api_keys k set last_used_at = u.at from unnest(ids, used_at) as u (id, at)
  where k.id = u.id and (k.last_used_at is null or k.last_used_at < u.at)
$$;

-- Knows (issuer, subject) as a user from now on, and binds invitations to its e-mail where the issuer has verified it.
create function sign_in(of_issuer text, of_subject text, of_email text, email_verified boolean, of_name text)
returns uuid
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
  pending uuid[];
begin
  select u.id into who from users u where u.issuer = of_issuer and u.subject = of_subject;
  if who is null then
    insert into users (issuer, subject, email, name) values (of_issuer, of_subject, of_email, of_name)
    on conflict (issuer, subject) do nothing returning id into who;
    if who is null then
      select u.id into who from users u where u.issuer = of_issuer and u.subject = of_subject;
    end if;
  else
    update users set email = of_email, name = of_name
    where id = who and (email, name) is distinct from (of_email, of_name);
  end if;
  if email_verified and of_email is not null then
    select array_agg(u.id) into pending from users u where u.subject is null and lower(u.email) = lower(of_email);
    if pending is not null then
      insert into members (tenant_id, user_id, role, email_known, created_at)
      select distinct on (m.tenant_id) m.tenant_id, who, m.role, true, m.created_at
      from members m where m.user_id = any (pending) order by m.tenant_id, m.created_at
      on conflict (tenant_id, user_id) do update set email_known = true;
      delete from users where id = any (pending);
    end if;
  end if;
  return who;
end $$;

create function membership(of_user uuid, of_slug text)
returns table (facts tenant_facts, role text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select t, m.role from members m join tenant_facts t on t.id = m.tenant_id
  where m.user_id = of_user and t.slug = of_slug
$$;

create function memberships(of_user uuid)
returns table (facts tenant_facts, role text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select t, m.role from members m join tenant_facts t on t.id = m.tenant_id
  where m.user_id = of_user order by t.slug
$$;

create function user_facts(of_user uuid) returns table (id uuid, issuer text, subject text, email text, name text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select u.id, u.issuer, u.subject, u.email, u.name from users u where u.id = of_user
$$;

-- Names a person as a member-to-be: the user that the issuer knows under this subject, else an open invitation.
create function invite_user(of_issuer text, of_subject text, of_email text) returns uuid
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
begin
  if of_subject is not null then
    insert into users (issuer, subject, email) values (of_issuer, of_subject, of_email)
    on conflict (issuer, subject) do update set email = coalesce(users.email, excluded.email) returning id into who;
    return who;
  end if;
  select u.id into who from users u
  where u.issuer = of_issuer and u.subject is null and lower(u.email) = lower(of_email) limit 1;
  if who is null then
    insert into users (issuer, email) values (of_issuer, of_email) returning id into who;
  end if;
  return who;
end $$;

-- How many tenants a user owns. Nobody else counts them until the transaction ends, so that a limit holds.
create function count_owned_tenants(of_user uuid) returns integer
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  perform from users u where u.id = of_user for no key update;
  return (select count(*) from members m join tenants t on t.id = m.tenant_id
    where m.user_id = of_user and m.role = 'owner' and t.status <> 'deleted');
end $$;

-- Creates a tenant with its limits and first owner; null where the slug is taken.
create function create_tenant(new_id uuid, new_slug text, new_name text, of_plan text, of_limits jsonb, owner uuid)
returns setof tenant_facts
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  insert into tenants (id, slug, name, plan) values (new_id, new_slug, new_name, of_plan)
  on conflict (slug) do nothing;
  if not found then
    return;
  end if;
  insert into tenant_limits (tenant_id, plan, limits) values (new_id, of_plan, of_limits);
  insert into tenant_usage (tenant_id, day) values (new_id, '-infinity');
  if owner is not null then
    insert into members (tenant_id, user_id, role, email_known) values (new_id, owner, 'owner', true);
  end if;
  return query select * from tenant_facts t where t.id = new_id;
end $$;

-- All tenants, newest first, for platform admins; with `of_user` only those the user belongs to.
create function list_tenants(of_user uuid, before timestamptz, before_id uuid, most integer)
returns setof tenant_facts
language sql stable security definer set search_path = despatch, pg_temp as $$
  select * from tenant_facts t
  where (of_user is null or exists (select from members m where m.tenant_id = t.id and m.user_id = of_user))
    and (before is null or (t.created_at, t.id) < (before, before_id))
  order by t.created_at desc, t.id desc limit most
$$;

-- Suspends or resumes the transaction's tenant; nothing where it is another's or neither active nor suspended. Idempotent.
create function set_suspension(of_tenant uuid, why text, by_whom text) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update tenants t set
    status = case when why is null then 'active' else 'suspended' end,
    suspension_reason = why,
    suspended_at = case when why is null then null else coalesce(t.suspended_at, now()) end,
    suspended_by = case when why is null then null else by_whom end,
    updated_at = now()
  where t.id = of_tenant and of_tenant = current_tenant() and t.status in ('active', 'suspended')
$$;

-- Moves the transaction's tenant to a plan; the generation stamps the change.
create function set_plan(of_tenant uuid, to_plan text, of_limits jsonb) returns void
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  update tenants set plan = to_plan, updated_at = now() where id = of_tenant and of_tenant = current_tenant();
  if not found then
    return;
  end if;
  insert into tenant_limits as l (tenant_id, plan, limits) values (of_tenant, to_plan, of_limits)
  on conflict (tenant_id) do update
    set plan = excluded.plan, limits = excluded.limits, generation = l.generation + 1, updated_at = now();
end $$;

-- The schema's version, for the gate in every service's readiness.
create function schema_version() returns integer language sql stable security definer set search_path = despatch, pg_temp
as $$ select max(version) from migrations $$;
