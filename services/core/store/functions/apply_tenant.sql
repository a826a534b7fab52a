-- Makes the tenant match its resource, in one transaction. `wanted`: {id, slug, name, plan, limits, overrides, suspension, uid,
-- ref, createdAt, generation, planUid, planGeneration, issuer, owners}; `id` is the id for a tenant that is created. Outcomes:
-- applied; taken (the slug belongs to another tenant); stale (a newer resource, or a newer generation of the resource or of its
-- plan, was applied before, or an administrator has suspended the tenant that an earlier resource left behind, and must resume it
-- first); purging (the tenant's rows are being deleted). `audit`: the audit log entry that was written.
create or replace function apply_tenant(wanted jsonb) returns table (outcome text, id uuid, audit jsonb)
language plpgsql security definer set search_path = despatch, pg_temp as $$
#variable_conflict use_column
declare
  w record;
  t tenants;
  o record;
  becomes text;
  who uuid;
  entry audit_log;
begin
  select * into w from jsonb_to_record(wanted) as x (id uuid, slug text, name text, plan text, limits jsonb,
    overrides jsonb, suspension text, uid text, ref text, "createdAt" timestamptz, generation bigint, "planUid" text,
    "planGeneration" bigint, issuer text, owners jsonb);

  perform lock_resource(w.uid);
  if exists (select from gone_resources g where g.uid = w.uid) then
    return query select 'stale', null::uuid, null::jsonb;
    return;
  end if;
  insert into tenants (id, slug, name, plan, owner_ref, owner_created_at)
  values (w.id, w.slug, w.name, w.plan, w.ref, w."createdAt") on conflict do nothing;
  if found then
    perform begin_counters(w.id);
  end if;
  select * into t from tenants x where x.slug = w.slug for no key update;
  if t.id is null or t.owner_ref is distinct from w.ref then
    return query select 'taken', t.id, null::jsonb;
    return;
  end if;
  becomes := case when w.suspension is null then 'active' else 'suspended' end;
  if not may_move_tenant(t.status, becomes) then
    return query select 'purging', t.id, null::jsonb;
    return;
  end if;
  if not speaks_for(t, w.uid, w.ref, w."createdAt", w.generation)
    or (t.owner_plan_uid = w."planUid" and t.owner_plan_generation > w."planGeneration")
    or (t.owner_uid is null and t.status = 'suspended' and t.suspended_by <> t.owner_ref) then
    return query select 'stale', t.id, null::jsonb;
    return;
  end if;

  update tenants x set plan = w.plan,
    name = case when t.owner_display_name is distinct from w.name then w.name else x.name end,
    owner_display_name = w.name, owner_named_owners = w.owners,
    status = becomes,
    suspension_reason = w.suspension,
    suspended_at = case when w.suspension is null then null else coalesce(x.suspended_at, now()) end,
    suspended_by = case when w.suspension is null then null else w.ref end,
    owner_uid = w.uid, owner_created_at = w."createdAt", owner_generation = w.generation,
    owner_plan_uid = w."planUid", owner_plan_generation = w."planGeneration", updated_at = now()
  where x.id = t.id;
  insert into tenant_limits as l (tenant_id, plan, overrides, limits) values (t.id, w.plan, w.overrides, w.limits)
  on conflict (tenant_id) do update set plan = excluded.plan, overrides = excluded.overrides, limits = excluded.limits,
    generation = l.generation + 1, updated_at = now()
  where (l.plan, l.overrides, l.limits) is distinct from (excluded.plan, excluded.overrides, excluded.limits);

  -- Owners that the resource names for the first time.
  for o in
    select n.value ->> 'email' as email, n.value ->> 'subject' as subject from jsonb_array_elements(w.owners) n
    where not t.owner_named_owners @> jsonb_build_array(n.value)
  loop
    select m.user_id into who from members m join users u on u.id = m.user_id
    where m.tenant_id = t.id and m.email_known and u.issuer = w.issuer and lower(u.email) = lower(o.email);
    who := coalesce(who, invite_user(w.issuer, o.subject, o.email));
    insert into members (tenant_id, user_id, role, email_known) values (t.id, who, 'owner', o.email is not null)
    on conflict (tenant_id, user_id) do update set role = 'owner', email_known = members.email_known or excluded.email_known;
  end loop;
  insert into audit_log (tenant_id, actor, action, target, details)
  values (t.id, 'resource:' || w.ref, 'tenant.applied', t.id::text,
    jsonb_build_object('uid', w.uid, 'createdAt', w."createdAt", 'generation', w.generation, 'plan', w.plan,
      'planGeneration', w."planGeneration", 'suspension', w.suspension))
  returning * into entry;
  return query select 'applied', t.id, to_jsonb(entry);
end $$;

grant execute on function apply_tenant(jsonb) to despatch_controller;
