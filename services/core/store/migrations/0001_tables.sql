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
  -- `owner_uid` says that a resource owns the tenant now; `owner_ref` ("namespace/name") also remembers whose it was, so
  -- that a resource of the same name takes it back. (`owner_created_at`, `owner_generation`) orders what resources of one
  -- name have said over time: an object read long ago never undoes a newer one. Name and members belong to the api; a
  -- resource sets them when it names something new, so what it last named is remembered.
  owner_uid text,
  owner_ref text,
  owner_created_at timestamptz,
  owner_generation bigint,
  owner_plan_uid text,
  owner_plan_generation bigint,
  owner_display_name text,
  owner_named_owners jsonb not null default '[]',
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

create index members_list on members (tenant_id, created_at desc, user_id desc);

-- Resources that are known to be gone: none of them speaks again, whatever a controller with an old view of the cluster
-- believes, and none brings back a tenant that was purged. Rows are kept for longer than any process is stopped.
create table gone_resources (
  uid text primary key,
  gone_at timestamptz not null default now()
);

-- A tenant and its limits, as the api knows them; a deleted one is nobody's. Only functions of the schema see it. Whose
-- the tenant was, where nobody owns it now, is nobody else's business.
create view tenant_facts with (security_invoker) as
  select t.id, t.slug, t.name, t.plan, t.status, t.suspension_reason, t.suspended_at, t.suspended_by,
    case when t.owner_uid is not null then t.owner_ref end as owner_ref, t.created_at, l.limits, l.overrides
  from tenants t left join tenant_limits l on l.tenant_id = t.id
  where t.status <> 'deleted';

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
create table provider_accounts (
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
  -- When a genuine receipt came last, and when one that was not and why, give or take a minute.
  reported_at timestamptz,
  receipt_refused_at timestamptz,
  receipt_refused_reason text,
  -- Of the token in the receipt URL. The one before holds until `receipt_grace_until`.
  receipt_version integer not null default 1,
  receipt_grace_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index provider_accounts_tenant on provider_accounts (tenant_id, seq desc);
create index provider_accounts_route on provider_accounts (tenant_id, channel, seq) where status not in ('disabled', 'deleted');
create index provider_accounts_replaced on provider_accounts (previous_until) where previous_until is not null;
create index provider_accounts_to_verify on provider_accounts (verify_requested_at) where verify_requested_at is not null;

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
-- A message's place is (seq, purge_on): a number reserved by the api before acceptance, and the Monday on which retention
-- is over and its partition is dropped. All keys are places and so come in order; a key of random ids would have every
-- row of a large table dirty a page of its own. The public id hides the place (core/domain/message-id.ts).

-- Numbers are handed out 1,024 at a time: a value of the sequence is a block of them.
create sequence message_blocks;

-- The key that hides places in ids. Whoever has it learns how many messages there are, and nothing else.
create table message_id_key (
  key bytea not null check (length(key) = 16),
  one boolean primary key default true check (one)
);
insert into message_id_key (key) values (uuid_send(gen_random_uuid()));

-- Insert-only; `content` alone is emptied where the sender asked for that.
create table messages (
  seq bigint not null,
  purge_on date not null,
  id uuid not null,
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
  pinned_account_id uuid,
  segments smallint,
  encoding text,
  delivery_guarantee text not null,
  content_retention text not null,
  metadata jsonb,
  tags text[],
  traceparent text,
  -- Of the request that was answered with the 202, so that every process's log can name it.
  request_id text,
  enqueued_at timestamptz not null,
  primary key (seq, purge_on)
) partition by range (purge_on);
create index messages_list on messages (tenant_id, enqueued_at desc, seq desc);
create index messages_external on messages (tenant_id, external_id, enqueued_at desc, seq desc)
  where external_id is not null;
-- A test key sees these alone, however many others there are.
create index messages_test on messages (tenant_id, enqueued_at desc, seq desc) where test;

-- Messages for which a provider may still be called: queued, deferred, held, sending. One narrow row each, from acceptance
-- to the end of the last call; here alone a message waits, is claimed and is put off. `due_at` is when somebody should
-- look at it, which covers the lost wake-up, the retry timer and the lease; a claim leaves it as it is, so that its
-- update touches no index and stays on its page (HOT).
create table live_messages (
  seq bigint primary key,
  purge_on date not null,
  tenant_id uuid not null,
  -- Through which account it is to go out; the nil uuid for a simulator.
  account_id uuid not null,
  due_at timestamptz not null,
  status text not null,
  reason text,
  priority smallint not null,
  channel text not null,
  test boolean not null,
  -- Whether the sender named the account.
  pinned boolean not null,
  segments smallint,
  -- Of what counts towards the bytes of a claim; null where that is little, as for nearly all.
  content_bytes integer,
  attempt integer not null default 0,
  retries smallint not null default 0,
  ambiguous smallint not null default 0,
  provider_waits smallint not null default 0,
  duplicate_risk boolean not null default false,
  -- The last attempt begun, committed before its provider is called. When it has ended `attempt_log` has it too.
  provider text,
  attempt_id uuid,
  worker text,
  started_at timestamptz,
  lease_until timestamptz,
  next_attempt_at timestamptz,
  expires_at timestamptz not null,
  held_at timestamptz,
  held_from text,
  failure jsonb,
  updated_at timestamptz not null
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index live_messages_due on live_messages (tenant_id, account_id, priority, due_at);

-- Messages for which no provider will be called any more, and what became of them. Only receipts change a row.
create table message_results (
  seq bigint not null,
  purge_on date not null,
  tenant_id uuid not null,
  status text not null,
  reason text,
  attempt integer not null,
  duplicate_risk boolean not null,
  account_id uuid,
  provider text,
  provider_message_id text,
  -- The account's own sender, where the provider accepted a message that named none.
  sent_from text,
  failure jsonb,
  final boolean not null,
  -- What receipts say besides: some segments may have arrived; a bounce came after the delivery; by segment, where the
  -- provider reports on each by itself; when it was first opened and so on, in milliseconds since the epoch.
  partial boolean not null default false,
  late_bounce boolean not null default false,
  segment_states jsonb,
  engagement jsonb,
  expires_at timestamptz not null,
  sent_at timestamptz,
  delivered_at timestamptz,
  completed_at timestamptz,
  updated_at timestamptz not null,
  primary key (seq, purge_on)
) partition by range (purge_on);

-- Where a message stands, wherever it is.
create view message_states with (security_invoker) as
  select seq, purge_on, tenant_id, status, reason, attempt, duplicate_risk,
    case when attempt > 0 and not test then account_id end as account_id, provider, null::text as provider_message_id,
    null::text as sent_from, next_attempt_at, failure, false as final, false as partial, false as late_bounce,
    null::jsonb as engagement, expires_at,
    null::timestamptz as sent_at, null::timestamptz as delivered_at, null::timestamptz as completed_at, updated_at
  from live_messages
  union all
  select seq, purge_on, tenant_id, status, reason, attempt, duplicate_risk, account_id, provider, provider_message_id,
    sent_from, null, failure, final, partial, late_bounce, engagement, expires_at, sent_at, delivered_at, completed_at, updated_at
  from message_results;

-- Sent messages whose provider reports what became of them, until it has or the wait is over.
create table awaited_receipts (
  seq bigint primary key,
  purge_on date not null,
  tenant_id uuid not null,
  due_at timestamptz not null
);
create index awaited_receipts_due on awaited_receipts (due_at);

-- Messages whose provider is asked what became of them: silent for an hour, or of a call without an answer.
create table lookups (
  seq bigint primary key,
  purge_on date not null,
  tenant_id uuid not null,
  account_id uuid not null,
  -- When the provider accepted the message, or may have.
  since timestamptz not null,
  -- 'infinity': only `until_at` is waited for.
  ask_at timestamptz not null,
  -- The wait for a receipt is over.
  until_at timestamptz not null,
  asks smallint not null default 0
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index lookups_ask on lookups (account_id, ask_at);
create index lookups_until on lookups (until_at);

-- Accounts with lookups, and when a worker may look into each of them.
create table lookup_turns (
  account_id uuid primary key,
  -- A question is due, and the account may be asked.
  next_at timestamptz not null,
  -- Nothing is asked before: the rate cap, and the pause of an account that does not answer.
  open_at timestamptz not null,
  failures smallint not null default 0
) with (fillfactor = 50);
create index lookup_turns_next on lookup_turns (next_at);

-- Attempts that have ended, each with the state it left its message in. Insert-only.
create table attempt_log (
  message_seq bigint not null,
  purge_on date not null,
  number integer not null,
  event_seq bigint not null,
  id uuid not null,
  tenant_id uuid not null,
  account_id uuid,
  provider text not null,
  worker text not null,
  outcome text not null,
  reason text,
  failure jsonb,
  http_status smallint,
  provider_message_id text,
  -- Receipts may name it by the provider's id alone.
  found_by_id boolean,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  message_status text not null,
  message_reason text,
  message_failure jsonb,
  primary key (message_seq, purge_on, number)
) partition by range (purge_on);

create index attempt_log_found_by_id on attempt_log (provider_message_id) where found_by_id;

-- What happened to messages other than by an attempt: receipts, expiry, holds. Append-only.
create table event_log (
  message_seq bigint not null,
  purge_on date not null,
  event_seq bigint not null,
  id uuid not null default gen_random_uuid(),
  tenant_id uuid not null,
  type text not null,
  source text not null,
  applied boolean not null default true,
  details jsonb,
  -- Of a receipt: the same for each of its repetitions.
  report_key text,
  at timestamptz not null,
  primary key (message_seq, purge_on, event_seq)
) partition by range (purge_on);
create unique index event_log_reports on event_log (message_seq, purge_on, report_key) where report_key is not null;

-- One order for both logs.
create sequence event_seq;
alter table attempt_log alter event_seq set default nextval('event_seq');
alter table event_log alter event_seq set default nextval('event_seq');

-- Every attempt, the one under way among them.
create view attempts with (security_invoker) as
  select id, message_seq, purge_on, number, tenant_id, account_id, provider, worker, outcome, reason, failure,
    http_status, provider_message_id, started_at, ended_at
  from attempt_log
  union all
  select attempt_id, seq, purge_on, attempt, tenant_id, case when not test then account_id end, provider, worker,
    'started', null, null, null, null, started_at, null
  from live_messages where status = 'sending';

-- Everything that happened to a message after its acceptance. An attempt that was never begun is no event.
create view events with (security_invoker) as
  select event_seq, id, message_seq, purge_on, tenant_id, type, source, applied, details, at from event_log
  union all
  select event_seq, id, message_seq, purge_on, tenant_id, 'message.' || message_status, 'worker', true,
    jsonb_strip_nulls(jsonb_build_object('attempt', number, 'reason', message_reason, 'failure', message_failure)), ended_at
  from attempt_log where message_status <> 'queued';

-- Contents too large to travel with their messages, whose own `content` then says no more than how large it is. One is
-- written before its message is accepted, read by the worker that sends it, and goes when the message's content goes.
create table message_contents (
  message_seq bigint not null,
  purge_on date not null,
  tenant_id uuid not null,
  content text not null,
  primary key (message_seq, purge_on)
) partition by range (purge_on);
-- Nearly all of one is attachments in base64, and no compression makes those smaller.
alter table message_contents alter content set storage external;

-- Contents of which nobody has looked yet whether their messages were accepted.
create table unsettled_contents (
  message_seq bigint primary key,
  purge_on date not null,
  tenant_id uuid not null,
  stored_at timestamptz not null default now()
);
create index unsettled_contents_age on unsettled_contents (stored_at);

create table messages_default partition of messages default;
create table message_contents_default partition of message_contents default;
create table message_results_default partition of message_results default with (fillfactor = 80);
create table attempt_log_default partition of attempt_log default;
create table event_log_default partition of event_log default;

-- Receipts that are read and not yet applied. Those of simulators wait for `apply_at`, others for their message: a receipt
-- may overtake the record of the call that it is about.
create table receipts (
  id uuid primary key default gen_random_uuid(),
  tenant_id uuid not null,
  -- Which account was reported to; null for a simulator's, and for an answer that came late.
  account_id uuid,
  -- The message by its place, with the id that its row must bear; null where the provider names its own id alone.
  message_seq bigint,
  purge_on date,
  message_id uuid,
  provider_message_id text,
  attempt integer,
  receipt text check (receipt in ('sent', 'delivered', 'undelivered')),
  temporary boolean not null default false,
  failure jsonb,
  segment text,
  engagement text,
  provider_status text,
  -- Whether a signature of the provider holds; null for what no provider has called with.
  verified boolean,
  -- Of the span in which the vendor's call was taken.
  traceparent text,
  -- When it happened, as the provider says.
  happened_at timestamptz,
  report_key text,
  received_at timestamptz not null default clock_timestamp(),
  apply_at timestamptz not null
);
create index receipts_due on receipts (apply_at);

-- Calls of vendors to receipt URLs, as they came, until a worker has looked into them.
create table receipt_calls (
  id bigint generated always as identity primary key,
  tenant_id uuid not null,
  account_id uuid not null,
  method text not null check (method in ('GET', 'POST')),
  -- Version of the token that the URL had; the token itself is stored nowhere.
  receipt_version integer not null,
  -- What followed the token in the URL, byte for byte, with its question mark; empty where nothing did.
  query text not null,
  -- Those that the provider's definition names, names in lower case.
  headers jsonb not null,
  body bytea not null,
  -- Of the span in which the api took it.
  traceparent text,
  received_at timestamptz not null,
  due_at timestamptz not null,
  tries smallint not null default 0
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- Read once and deleted: to compress one costs more than it saves.
alter table receipt_calls alter body set storage external;
create index receipt_calls_due on receipt_calls (account_id, due_at);

-- What a worker is given of a message that is under way: `send` for one to call the provider for, `lost` for an attempt
-- whose lease is over, which nobody needs the content of. `discard`: the content is to go as soon as no provider needs it.
create view claimed_message with (security_invoker) as
  select case when l.lease_until <= clock_timestamp() then 'lost' else 'send' end as action, l.seq, l.purge_on, m.id, l.tenant_id, l.attempt, l.retries, l.ambiguous, l.provider_waits,
    l.duplicate_risk, l.channel, m.address, m.sender, case when l.lease_until > clock_timestamp() then m.content end as content,
    l.content_bytes, l.test, l.segments, m.delivery_guarantee, m.enqueued_at,
    l.expires_at, m.traceparent, m.request_id, case when not l.test then l.account_id end as account_id, l.provider,
    p.status as account_status, p.version as account_version, p.rate_limit_per_second,
    m.content_retention = 'discard' as discard, l.worker
  from live_messages l
  join messages m on m.seq = l.seq and m.purge_on = l.purge_on
  left join provider_accounts p on p.id = l.account_id
  where l.status = 'sending';

-- What the decision about a message that was not claimed needs to know. `account_status` is null where there is no account.
create view waiting_message with (security_invoker) as
  select l.seq, l.purge_on, m.id, l.tenant_id, t.status as tenant_status, l.status, l.attempt, l.ambiguous, l.account_id,
    p.status as account_status, p.rate_limit_per_second, l.pinned, l.channel, l.test, l.worker, l.lease_until,
    l.next_attempt_at, l.expires_at, l.due_at, m.enqueued_at, m.request_id,
    -- By this clock: no worker's own decides.
    coalesce(l.next_attempt_at, '-infinity') <= clock_timestamp() as is_due,
    l.expires_at <= clock_timestamp() as is_expired,
    l.status = 'sending' and l.lease_until <= clock_timestamp() as is_lease_over
  from live_messages l
  join tenants t on t.id = l.tenant_id
  join messages m on m.seq = l.seq and m.purge_on = l.purge_on
  left join provider_accounts p on p.id = l.account_id and p.status <> 'deleted';

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

-- The calls of one subject (api key, tenant or user) in the last 61 seconds up to `second`, the oldest first. What a call
-- changes within a second stands at the end, side by side: an update logs no more than what has changed of a row.
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

-- Dispatch tokens of the current second, for accounts with a rate limit.
create table account_rates (
  account_id uuid primary key,
  second bigint not null,
  used integer not null
) with (fillfactor = 50);

-- Isolation -------------------------------------------------------------------------------------------------------------

do $$
declare t text;
begin
  foreach t in array array['tenant_limits', 'members', 'api_keys', 'provider_accounts', 'audit_log', 'messages',
    'live_messages', 'message_results', 'awaited_receipts', 'lookups', 'message_contents', 'unsettled_contents', 'attempt_log',
    'event_log', 'receipts', 'receipt_calls', 'idempotency_keys', 'tenant_usage', 'tenant_progress', 'messages_default',
    'message_results_default', 'message_contents_default', 'attempt_log_default', 'event_log_default',
    'idempotency_keys_default']
  loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    -- Tests break this (mutant: own-rows): the services' roles read and write rows of one tenant at a time.
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
  foreach t in array array['rate_windows', 'account_rates', 'lookup_turns', 'gone_resources', 'message_id_key'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy definer on %I to despatch_definer using (true) with check (true)', t);
  end loop;
end $$;

-- The api reads and writes its tenant's rows; it can write a provider's ciphertext and never read one, nor a key's hash.
grant usage on schema despatch to despatch_api, despatch_worker, despatch_controller;
grant select on tenants, tenant_limits, members, users, messages, live_messages, message_results, message_states,
  attempt_log, attempts, event_log, events, audit_log, tenant_usage, tenant_progress to despatch_api;
grant update (name, updated_at) on tenants to despatch_api;
grant insert, delete on members to despatch_api;
grant update (role) on members to despatch_api;
grant insert on audit_log to despatch_api;
grant select (seq, id, tenant_id, key_id, name, mode, scopes, rate_limit_rpm, grace_until, expires_at, revoked_at,
  last_used_at, created_at), insert, update on api_keys to despatch_api;
grant select (seq, id, tenant_id, provider, channel, label, status, status_reason, health, config_public,
  rate_limit_per_second, secret_version, version, verify_requested_at, verification_at, verification_result,
  verification_reason, verified_at, receipt_version, receipt_grace_until, reported_at, receipt_refused_at,
  receipt_refused_reason, created_at, updated_at), insert, update on provider_accounts to despatch_api;
grant execute on function current_tenant() to despatch_api, despatch_worker, despatch_controller;
