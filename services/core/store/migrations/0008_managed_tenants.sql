-- Tenants that a cluster resource declares. The controller touches no table: it calls these functions, which work across
-- tenants since that is its task, and which a resource's identity and generation fence.

-- `owner_uid` says that a resource owns the tenant now; `owner_ref` also remembers whose it was, so that a resource of
-- the same namespace and name takes it back. (`owner_created_at`, `owner_generation`) orders what resources of one name
-- have said over time: an object read long ago never undoes a newer one. Name and
-- members belong to the api; a resource sets them when it names something new, so what it last named is remembered.
alter table tenants
  add column owner_created_at timestamptz,
  add column owner_plan_uid text,
  add column owner_plan_generation bigint,
  add column owner_display_name text,
  add column owner_named_owners jsonb not null default '[]';

-- Resources that are known to be gone: none of them speaks again, whatever a controller with an old view of the cluster
-- believes, and none brings back a tenant that was purged. Rows are kept for longer than any process is stopped.
create table gone_resources (
  uid text primary key,
  gone_at timestamptz not null default now()
);
alter table gone_resources enable row level security;
alter table gone_resources force row level security;
create policy definer on gone_resources to despatch_definer using (true) with check (true);

-- What a resource says and that it is gone are written one after the other, also where there is no row to lock yet.
-- Taken before any lock of a row.
create function lock_resource(of_uid text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('resource ' || of_uid, 0))
$$;

create function note_gone(of_uid text) returns void language sql as $$
  delete from gone_resources where gone_at < now() - interval '90 days';
  insert into gone_resources (uid) values (of_uid) on conflict do nothing;
$$;

-- Whose the tenant is now; what is only remembered is nobody else's business.
create or replace view tenant_facts with (security_invoker) as
  select t.id, t.slug, t.name, t.plan, t.status, t.suspension_reason, t.suspended_at, t.suspended_by,
    case when t.owner_uid is not null then t.owner_ref end as owner_ref,
    t.created_at, l.limits, l.overrides
  from tenants t left join tenant_limits l on l.tenant_id = t.id
  where t.status <> 'deleted';

-- What is stored of the tenant that has this slug; nothing where nobody has it.
create function managed_tenant(of_slug text)
returns table (id uuid, plan text, status text, suspension_reason text, suspended_by text, owner_uid text,
  owner_ref text, owner_created_at timestamptz, owner_generation bigint, owner_plan_uid text,
  owner_plan_generation bigint, owner_display_name text, owner_named_owners jsonb, limits jsonb, overrides jsonb)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select t.id, t.plan, t.status, t.suspension_reason, t.suspended_by, t.owner_uid, t.owner_ref,
    t.owner_created_at, t.owner_generation, t.owner_plan_uid, t.owner_plan_generation, t.owner_display_name,
    t.owner_named_owners, l.limits, l.overrides
  from tenants t left join tenant_limits l on l.tenant_id = t.id
  where t.slug = of_slug
$$;

-- Whether a resource may speak for a tenant: it has the namespace and name that declared it, and is not older than what
-- has spoken before. Creation times are whole seconds: of two in one, the other one is the newer.
create function speaks_for(t tenants, uid text, ref text, created timestamptz, generation bigint) returns boolean
language sql immutable as $$
  select t.owner_ref = ref
    and (t.owner_created_at < created
      or (t.owner_created_at = created and (t.owner_uid is distinct from uid or t.owner_generation <= generation)))
$$;

-- Makes the tenant what its resource says, in one transaction. `wanted`: {id, slug, name, plan, limits, overrides,
-- suspension, uid, ref, createdAt, generation, planUid, planGeneration, issuer, owners}; `id` names a tenant that is
-- new. Outcomes: applied; taken (the slug is another's); stale (a newer resource, or a newer generation of it or of its
-- plan, has spoken); purging (its rows are being deleted). `audit`: the entry that was written.
create function apply_tenant(wanted jsonb) returns table (outcome text, id uuid, audit jsonb)
language plpgsql security definer set search_path = despatch, pg_temp as $$
#variable_conflict use_column
declare
  w record;
  t tenants;
  o record;
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
    insert into tenant_usage (tenant_id, day) values (w.id, '-infinity');
  end if;
  select * into t from tenants x where x.slug = w.slug for no key update;
  if t.id is null or t.owner_ref is distinct from w.ref then
    return query select 'taken', t.id, null::jsonb;
    return;
  end if;
  if t.status in ('deleting', 'deleted') then
    return query select 'purging', t.id, null::jsonb;
    return;
  end if;
  if not speaks_for(t, w.uid, w.ref, w."createdAt", w.generation)
    or (t.owner_plan_uid = w."planUid" and t.owner_plan_generation > w."planGeneration") then
    return query select 'stale', t.id, null::jsonb;
    return;
  end if;

  update tenants x set plan = w.plan,
    name = case when t.owner_display_name is distinct from w.name then w.name else x.name end,
    owner_display_name = w.name, owner_named_owners = w.owners,
    status = case when w.suspension is null then 'active' else 'suspended' end,
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

  -- Whoever has been named for the first time.
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

-- The resource is gone and its tenant stays: suspended, with all it has, and nobody's until a resource of the same
-- namespace and name takes it back. A resource lets go of what it owns, and of what an older one of its name left behind;
-- never of what a younger one has taken over, which a controller with an old view does not know of. Creation times are
-- whole seconds: of two in one, neither lets go of the other's. Returns the audit entry where there was something to do.
create function retain_tenant(of_slug text, of_uid text, of_ref text, of_created timestamptz) returns jsonb
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
  entry audit_log;
begin
  perform lock_resource(of_uid);
  perform note_gone(of_uid);
  update tenants t set owner_uid = null, owner_created_at = greatest(t.owner_created_at, of_created), status = 'suspended',
    suspension_reason = coalesce(t.suspension_reason, 'manual'),
    suspended_at = coalesce(t.suspended_at, now()),
    suspended_by = coalesce(t.suspended_by, t.owner_ref), updated_at = now()
  where t.slug = of_slug and t.owner_ref = of_ref and t.owner_uid is not null
    and (t.owner_uid = of_uid or t.owner_created_at < of_created)
    and t.status in ('provisioning', 'active', 'suspended')
  returning t.id into who;
  if who is not null then
    insert into audit_log (tenant_id, actor, action, target, details) values (who, 'resource:' || of_ref,
      'tenant.retained', who::text, jsonb_build_object('uid', of_uid, 'createdAt', of_created))
    returning * into entry;
    return to_jsonb(entry);
  end if;
  return null;
end $$;

-- Purging ---------------------------------------------------------------------------------------------------------------
-- begin_purge, then purge_some until it says that nothing is left, then the key in Vault, then end_purge. Each may be
-- repeated and each does nothing for a resource that does not own the tenant. What has begun is never taken back.

-- Stops intake and delivery for good.
create function begin_purge(of_slug text, of_uid text) returns uuid
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
begin
  perform lock_resource(of_uid);
  select t.id into who from tenants t where t.slug = of_slug and t.owner_uid = of_uid for no key update;
  if who is null then
    return null;
  end if;
  perform note_gone(of_uid);
  update tenants t set status = 'deleting', suspension_reason = null, suspended_at = null, suspended_by = null, updated_at = now()
  where t.id = who and t.status <> 'deleting';
  -- Who is accepting now has read the status before; from here on nobody reads the old one.
  perform from tenant_usage u where u.tenant_id = who for update;
  return who;
end $$;

-- Deletes at most `most` messages with all that hangs on them, or other rows when no message is left.
-- `outcome`: deleted (there may be more), draining (only provider calls under way are left, they end by themselves or
-- with their lease), empty (only the tenant's own rows are left), absent (no purge of this resource is under way).
-- `id`: whose rows they are; the key to destroy is that tenant's and no other's.
create function purge_some(of_slug text, of_uid text, most integer) returns table (outcome text, deleted integer, id uuid)
language plpgsql security definer set search_path = despatch, pg_temp as $$
#variable_conflict use_column
declare
  who uuid;
  seqs bigint[];
  ids uuid[];
  purges date[];
  part text;
  n integer := 0;
  under_way boolean;
begin
  select t.id into who from tenants t where t.slug = of_slug and t.owner_uid = of_uid and t.status = 'deleting';
  if who is null then
    return query select 'absent', 0, null::uuid;
    return;
  end if;
  -- A call under way keeps its message until its outcome is recorded or its lease is over.
  select array_agg(x.seq), array_agg(x.id), array_agg(x.purge_on) into seqs, ids, purges from (
    select m.seq, m.id, m.purge_on from messages m
    join message_states s on s.id = m.id and s.purge_on = m.purge_on
    where m.tenant_id = who and (s.status <> 'sending' or s.lease_until < now())
    limit most for update of s skip locked) x;
  if ids is not null then
    delete from due d where d.seq = any (seqs);
    delete from receipts r where r.message_id = any (ids);
    delete from attempt_log a using unnest(ids, purges) as u (id, purge) where a.message_id = u.id and a.purge_on = u.purge;
    delete from event_log e using unnest(ids, purges) as u (id, purge) where e.message_id = u.id and e.purge_on = u.purge;
    delete from message_states s using unnest(ids, purges) as u (id, purge) where s.id = u.id and s.purge_on = u.purge;
    delete from message_contents c using unnest(ids, purges) as u (id, purge)
    where c.message_id = u.id and c.purge_on = u.purge;
    delete from messages m using unnest(ids, purges) as u (id, purge) where m.id = u.id and m.purge_on = u.purge;
    return query select 'deleted', cardinality(ids), who;
    return;
  end if;
  under_way := exists (select from messages m where m.tenant_id = who);
  if under_way then
    return query select 'draining', 0, who;
    return;
  end if;
  -- No index leads from a tenant to its idempotency keys: one look over a partition takes all of them.
  for part in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'despatch.idempotency_keys'::regclass order by 1
  loop
    execute format('delete from %I k where k.tenant_id = $1', part) using who;
    get diagnostics n = row_count;
    if n > 0 then
      return query select 'deleted', n, who;
      return;
    end if;
  end loop;
  delete from audit_log a where a.seq = any (array(select x.seq from audit_log x where x.tenant_id = who limit most));
  get diagnostics n = row_count;
  return query select case when n > 0 then 'deleted' else 'empty' end, n, who;
end $$;

-- Deletes what is left, the tenant's own row last. The key must be gone by now. Says whether the tenant is gone too.
create function end_purge(of_slug text, of_uid text) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
  people uuid[];
begin
  select t.id into who from tenants t where t.slug = of_slug and t.owner_uid = of_uid and t.status = 'deleting' for update;
  if who is null then
    return true;
  end if;
  perform from tenant_usage u where u.tenant_id = who for update;
  -- What was being accepted when the purge began has been stored since.
  if exists (select from messages m where m.tenant_id = who) then
    return false;
  end if;
  delete from rate_windows r where r.subject = who or r.subject in (select k.id from api_keys k where k.tenant_id = who);
  delete from provider_rates r where r.provider_id in (select p.id from providers p where p.tenant_id = who);
  delete from due d where d.tenant_id = who;
  delete from receipts r where r.tenant_id = who;
  -- Of messages that were never accepted.
  delete from message_contents c using unsettled_contents u
  where u.tenant_id = who and c.message_id = u.message_id and c.purge_on = u.purge_on;
  delete from unsettled_contents u where u.tenant_id = who;
  delete from audit_log a where a.tenant_id = who;
  select array_agg(m.user_id) into people from members m where m.tenant_id = who;
  delete from tenant_usage u where u.tenant_id = who;
  delete from tenant_progress p where p.tenant_id = who;
  delete from tenants t where t.id = who;
  -- Invitations that nobody took up go with the last tenant that made them.
  delete from users u where u.id = any (people) and u.subject is null
    and not exists (select from members m where m.user_id = u.id);
  return true;
end $$;

-- Keys ------------------------------------------------------------------------------------------------------------------

-- Ciphertexts under older versions of the tenant's key than `latest`. They are of no use without Vault.
create function outdated_ciphertexts(of_tenant uuid, latest integer, most integer)
returns table (provider_id uuid, ciphertext text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select p.id, c.text from providers p cross join lateral (values (p.ciphertext), (p.previous_ciphertext)) as c (text)
  where p.tenant_id = of_tenant and c.text like 'vault:v%' and c.text not like 'vault:v' || latest || ':%'
  limit most
$$;

-- Puts the same secret under a newer version in the old one's place; nothing where the old one has been replaced since.
-- The account's version stays: what workers hold decrypted is still right.
create function replace_ciphertext(of_tenant uuid, of_provider uuid, replaced text, replacement text) returns boolean
language sql security definer set search_path = despatch, pg_temp as $$
  with moved as (
    update providers p set
      ciphertext = case when p.ciphertext = replaced then replacement else p.ciphertext end,
      previous_ciphertext = case when p.previous_ciphertext = replaced then replacement else p.previous_ciphertext end
    where p.id = of_provider and p.tenant_id = of_tenant and replaced in (p.ciphertext, p.previous_ciphertext)
    returning 1
  )
  select exists (select from moved)
$$;

revoke all on function managed_tenant(text), speaks_for(tenants, text, text, timestamptz, bigint), apply_tenant(jsonb),
  lock_resource(text), note_gone(text), retain_tenant(text, text, text, timestamptz),
  begin_purge(text, text), purge_some(text, text, integer), end_purge(text, text),
  outdated_ciphertexts(uuid, integer, integer), replace_ciphertext(uuid, uuid, text, text) from public;
grant execute on function managed_tenant(text), apply_tenant(jsonb), retain_tenant(text, text, text, timestamptz),
  begin_purge(text, text), purge_some(text, text, integer), end_purge(text, text),
  outdated_ciphertexts(uuid, integer, integer), replace_ciphertext(uuid, uuid, text, text)
to despatch_controller;
