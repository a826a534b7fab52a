-- Tables. Everything lives in schema `despatch` and belongs to `despatch_definer`, a role that cannot log in.
-- Row-level security is forced on every table that holds a tenant's rows: an unset `app.tenant` shows nothing.

create function current_tenant() returns uuid language sql stable parallel safe
as $$ select nullif(current_setting('app.tenant', true), '')::uuid $$;

-- Tenants and people ---------------------------------------------------------------------------------------------

create table tenants (
  id uuid primary key,
  slug text not null unique,
  name text not null,
  plan text not null default 'free',
  status text not null default 'active'
    check (status in ('provisioning', 'active', 'suspended', 'deleting', 'deleted')),
  suspension_reason text check (suspension_reason in ('manual', 'billing', 'abuse')),
  suspended_at timestamptz,
  suspended_by text,
  -- Set while a cluster resource owns the tenant: its UID, "namespace/name" and the generation last applied.
  owner_uid text,
  owner_ref text,
  owner_generation bigint,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check ((status = 'suspended') = (suspension_reason is not null))
);

-- What api and worker enforce. `limits` uses the names of the plan table verbatim. No row: the free plan.
create table tenant_limits (
  tenant_id uuid primary key references tenants on delete cascade,
  generation bigint not null default 1,
  plan text not null,
  overrides jsonb not null default '{}',
  limits jsonb not null,
  updated_at timestamptz not null default now()
);

-- A user without a subject is an invitation by e-mail that nobody has taken up yet.
create table users (
  id uuid primary key default gen_random_uuid(),
  issuer text not null,
  subject text,
  email text,
  name text,
  created_at timestamptz not null default now(),
  unique (issuer, subject)
);
create index users_pending on users (lower(email)) where subject is null;

create table members (
  tenant_id uuid not null references tenants on delete cascade,
  user_id uuid not null references users on delete cascade,
  role text not null check (role in ('owner', 'admin', 'developer', 'viewer')),
  -- Whether the tenant knows the person's address: it invited that, or the person made the tenant. Of somebody named by
  -- subject it learns nothing that others know.
  email_known boolean not null default false,
  created_at timestamptz not null default now(),
  primary key (tenant_id, user_id)
);
create index members_user on members (user_id);

-- Credentials ------------------------------------------------------------------------------------------------------

create table api_keys (
  seq bigint generated always as identity,
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  key_id text not null unique,
  name text not null,
  mode text not null check (mode in ('live', 'test')),
  scopes text[] not null,
  rate_limit_rpm integer check (rate_limit_rpm between 1 and 60000),
  secret_hash bytea not null,
  previous_secret_hash bytea,
  grace_until timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  created_at timestamptz not null default now()
);
create index api_keys_tenant on api_keys (tenant_id, seq desc);

-- `json`, not `jsonb`: the caller gets its settings back exactly as sent.
create table providers (
  seq bigint generated always as identity,
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  provider text not null,
  channel text not null check (channel in ('sms', 'email', 'push', 'whatsapp')),
  label text not null,
  status text not null default 'unverified'
    check (status in ('unverified', 'active', 'invalid', 'disabled', 'deleted')),
  status_reason text,
  health text not null default 'healthy' check (health in ('healthy', 'open', 'probing')),
  config_public json not null,
  rate_limit_per_second integer check (rate_limit_per_second between 1 and 10000),
  ciphertext text,
  secret_version integer not null default 1,
  previous_ciphertext text,
  previous_until timestamptz,
  -- Rises with every change that a worker's cached copy must not outlive.
  version integer not null default 1,
  auth_failures integer not null default 0,
  verify_requested_at timestamptz,
  -- The last check of the present settings and secret: a change of either forgets it.
  verification_at timestamptz,
  verification_result text check (verification_result in ('valid', 'invalid', 'unknown')),
  verification_reason text,
  -- When the present settings and secret were last seen to work.
  verified_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index providers_tenant on providers (tenant_id, seq desc);
create index providers_route on providers (tenant_id, channel, seq) where status not in ('disabled', 'deleted');
create index providers_to_verify on providers (verify_requested_at) where verify_requested_at is not null;

create table audit_log (
  seq bigint generated always as identity primary key,
  id uuid not null default gen_random_uuid(),
  tenant_id uuid,
  actor text not null,
  -- As they were then, where the tenant may know them; ids alone tell people little.
  actor_name text,
  actor_email text,
  action text not null,
  target text not null,
  target_name text,
  -- [{field, from, to}], without values where these are secret; null where the action says it all.
  changes jsonb,
  ip text,
  request_id text,
  app_name text,
  details jsonb not null default '{}',
  -- Of the moment and not of the transaction's begin: changes of a tenant wait for each other, and are told in order.
  at timestamptz not null default clock_timestamp()
);
create index audit_log_tenant on audit_log (tenant_id, at desc, seq desc);

-- Messages -----------------------------------------------------------------------------------------------------------
-- Partitioned by the Monday on which retention is over, so that tenants of different plans are purged by dropping partitions.

-- Not cached per connection: it orders the messages of one millisecond, in lists and in the queue.
create sequence message_seq;

-- Insert-only; `content` alone is emptied where the sender asked for that.
create table messages (
  seq bigint not null default nextval('message_seq'),
  id uuid not null,
  purge_on date not null,
  tenant_id uuid not null,
  api_key_id uuid,
  channel text not null,
  recipient text not null,
  address text not null,
  sender text,
  content jsonb,
  external_id text,
  category text not null,
  priority smallint not null,
  test boolean not null,
  pinned_provider_id uuid,
  segments smallint,
  encoding text,
  delivery_guarantee text not null,
  content_retention text not null,
  metadata jsonb,
  tags text[],
  parent_message_id uuid,
  traceparent text,
  -- Of the request that was answered with the 202, so that every process's log can name it.
  request_id text,
  enqueued_at timestamptz not null,
  primary key (id, purge_on)
) partition by range (purge_on);
create index messages_list on messages (tenant_id, enqueued_at desc, seq desc);
create index messages_external on messages (tenant_id, external_id, enqueued_at desc, seq desc)
  where external_id is not null;
-- A test key sees these alone, however many others there are.
create index messages_test on messages (tenant_id, enqueued_at desc, seq desc) where test;

-- Narrow and mutable. No index but the key, so that every update stays on its page (HOT).
create table message_states (
  id uuid not null,
  purge_on date not null,
  tenant_id uuid not null,
  seq bigint not null,
  status text not null,
  reason text,
  attempt integer not null default 0,
  retries smallint not null default 0,
  ambiguous smallint not null default 0,
  provider_waits smallint not null default 0,
  duplicate_risk boolean not null default false,
  provider_id uuid,
  provider text,
  provider_message_id text,
  -- The account's own sender, where the provider accepted a message that named none.
  sent_from text,
  -- The last attempt begun, committed before its provider is called. When it has ended `attempt_log` has it too.
  attempt_id uuid,
  worker text,
  started_at timestamptz,
  lease_until timestamptz,
  next_attempt_at timestamptz,
  expires_at timestamptz not null,
  held_at timestamptz,
  held_from text,
  failure jsonb,
  partial boolean not null default false,
  final boolean not null default false,
  sent_at timestamptz,
  delivered_at timestamptz,
  completed_at timestamptz,
  updated_at timestamptz not null,
  primary key (id, purge_on)
) partition by range (purge_on);

-- "Somebody should look at this message at `due_at`": covers the lost wake-up, the retry timer, the lease and the
-- receipt that never came. A row lives from acceptance until nothing more can happen by itself.
create table due (
  seq bigint primary key,
  message_id uuid not null,
  purge_on date not null,
  tenant_id uuid not null,
  due_at timestamptz not null
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index due_tenant on due (tenant_id, due_at);

-- Attempts that have ended, each with the state it left its message in. Insert-only.
create table attempt_log (
  event_seq bigint not null,
  id uuid not null,
  message_id uuid not null,
  purge_on date not null,
  number integer not null,
  tenant_id uuid not null,
  provider_id uuid,
  provider text not null,
  worker text not null,
  outcome text not null,
  reason text,
  failure jsonb,
  http_status smallint,
  provider_message_id text,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  message_status text not null,
  message_reason text,
  message_failure jsonb,
  primary key (message_id, purge_on, number)
) partition by range (purge_on);

-- What happened to messages other than by an attempt: receipts, expiry, holds. Append-only.
create table event_log (
  seq bigint not null,
  id uuid not null default gen_random_uuid(),
  message_id uuid not null,
  purge_on date not null,
  tenant_id uuid not null,
  type text not null,
  source text not null,
  applied boolean not null default true,
  details jsonb,
  at timestamptz not null,
  primary key (message_id, purge_on, seq)
) partition by range (purge_on);

-- One order for both logs.
create sequence event_seq;
alter table attempt_log alter event_seq set default nextval('event_seq');
alter table event_log alter seq set default nextval('event_seq');

-- Every attempt, the one under way among them.
create view attempts with (security_invoker) as
  select id, message_id, purge_on, number, tenant_id, provider_id, provider, worker, outcome, reason, failure,
    http_status, provider_message_id, started_at, ended_at
  from attempt_log
  union all
  select attempt_id, id, purge_on, attempt, tenant_id, provider_id, provider, worker, 'started', null, null,
    null, null, started_at, null
  from message_states where status = 'sending';

-- Everything that happened to a message after its acceptance. An attempt that was never begun is no event.
create view events with (security_invoker) as
  select seq, id, message_id, purge_on, tenant_id, type, source, applied, details, at from event_log
  union all
  select event_seq, id, message_id, purge_on, tenant_id, 'message.' || message_status, 'worker', true,
    jsonb_strip_nulls(jsonb_build_object('attempt', number, 'reason', message_reason, 'failure', message_failure)), ended_at
  from attempt_log where message_status <> 'queued';

-- Contents too large to travel with their messages, whose own `content` then says no more than how large it is. One is
-- written before its message is accepted, read by the worker that sends it, and goes when the message's content goes.
create table message_contents (
  message_id uuid not null,
  purge_on date not null,
  tenant_id uuid not null,
  content text not null,
  primary key (message_id, purge_on)
) partition by range (purge_on);
-- Nearly all of one is attachments in base64, and no compression makes those smaller.
alter table message_contents alter content set storage external;

-- Contents of which nobody has looked yet whether their messages were accepted.
create table unsettled_contents (
  message_id uuid primary key,
  purge_on date not null,
  tenant_id uuid not null,
  stored_at timestamptz not null default now()
);
create index unsettled_contents_age on unsettled_contents (stored_at);

create table messages_default partition of messages default;
create table message_contents_default partition of message_contents default;
create table message_states_default partition of message_states default with (fillfactor = 50);
create table attempt_log_default partition of attempt_log default;
create table event_log_default partition of event_log default;

-- Receipts not yet applied. Foretold ones (simulators) wait for `apply_at`.
create table receipts (
  id uuid primary key default gen_random_uuid(),
  tenant_id uuid not null,
  provider_id uuid,
  message_id uuid not null,
  purge_on date not null,
  attempt integer not null,
  receipt text not null check (receipt in ('sent', 'delivered', 'undelivered')),
  temporary boolean not null default false,
  failure jsonb,
  apply_at timestamptz not null
);
create index receipts_due on receipts (apply_at);

-- Idempotency: one partition a generation of seven days; a key is looked for in its own, the previous one and later ones.
-- `response` is the answer word for word, since a replay repeats it, and so holds a message's recipient: `json`, as `jsonb`
-- would put the caller's own keys in another order. It goes within fifteen days, before the message that holds the same.
create table idempotency_keys (
  scope bytea not null,
  generation date not null,
  tenant_id uuid,
  fingerprint bytea not null,
  status smallint,
  response json,
  nonce bytea,
  created_at timestamptz not null default now(),
  primary key (scope, generation)
) partition by range (generation);
create table idempotency_keys_default partition of idempotency_keys default;

-- Counters ---------------------------------------------------------------------------------------------------------------

-- One ring of 61 one-second buckets per subject (api key, tenant or user): slot = second mod 61.
create table rate_windows (
  subject uuid primary key,
  second bigint not null default 0,
  counts integer[] not null default array_fill(0, array[61]),
  -- The sum of `counts`, kept so that it need not be taken.
  total integer not null default 0
) with (fillfactor = 50);

-- `used` counts the quota of `day`; `accepted` only grows. Locked by the accept path.
create table tenant_usage (
  tenant_id uuid primary key,
  day date not null default '-infinity',
  used bigint not null default 0,
  accepted bigint not null default 0
) with (fillfactor = 50);

-- Only grows, moved by workers; accepted - finished = backlog. Apart from tenant_usage so that neither path waits
-- for the other's row.
create table tenant_progress (
  tenant_id uuid primary key,
  finished bigint not null default 0
) with (fillfactor = 50);

-- Dispatch tokens of the current second, for providers with a rate limit.
create table provider_rates (
  provider_id uuid primary key,
  second bigint not null,
  used integer not null
) with (fillfactor = 50);

-- Isolation -------------------------------------------------------------------------------------------------------------

do $$
declare t text;
begin
  foreach t in array array['tenant_limits', 'members', 'api_keys', 'providers', 'audit_log', 'messages',
    'message_states', 'message_contents', 'unsettled_contents', 'due', 'attempt_log', 'event_log', 'receipts', 'idempotency_keys', 'tenant_usage', 'tenant_progress',
    'messages_default', 'message_states_default', 'message_contents_default', 'attempt_log_default', 'event_log_default',
    'idempotency_keys_default']
  loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy own_rows on %I using (tenant_id = current_tenant()) with check (tenant_id = current_tenant())', t);
    execute format('create policy definer on %I to despatch_definer using (true) with check (true)', t);
  end loop;
  alter table tenants enable row level security;
  alter table tenants force row level security;
  create policy own_rows on tenants using (id = current_tenant()) with check (id = current_tenant());
  create policy definer on tenants to despatch_definer using (true) with check (true);
  -- People are not a tenant's: a tenant sees those who are its members.
  alter table users enable row level security;
  alter table users force row level security;
  create policy own_members on users for select
    using (exists (select from members m where m.user_id = users.id and m.tenant_id = current_tenant()));
  create policy definer on users to despatch_definer using (true) with check (true);
  foreach t in array array['rate_windows', 'provider_rates'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy definer on %I to despatch_definer using (true) with check (true)', t);
  end loop;
end $$;

-- The api reads and writes its tenant's rows; it can write a provider's ciphertext and never read one, nor a key's hash.
grant usage on schema despatch to despatch_api, despatch_worker, despatch_controller;
grant select on tenants, tenant_limits, members, users, messages, message_states, attempt_log, attempts, event_log,
  events, audit_log, tenant_usage, tenant_progress to despatch_api;
grant update (name, updated_at) on tenants to despatch_api;
grant insert, delete on members to despatch_api;
grant update (role) on members to despatch_api;
grant insert on audit_log to despatch_api;
grant select (seq, id, tenant_id, key_id, name, mode, scopes, rate_limit_rpm, grace_until, expires_at, revoked_at,
  last_used_at, created_at), insert, update on api_keys to despatch_api;
grant select (seq, id, tenant_id, provider, channel, label, status, status_reason, health, config_public,
  rate_limit_per_second, secret_version, version, verify_requested_at, verification_at, verification_result,
  verification_reason, verified_at, created_at, updated_at, deleted_at), insert, update on providers to despatch_api;
