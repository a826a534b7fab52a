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
  -- resource sets them when it names something new, so what it last named is remembered. A tenant that the api deleted has
  -- no `owner_ref`, and `api:` with its id as `owner_uid`.
  owner_uid text,
  owner_ref text,
  owner_created_at timestamptz,
  owner_generation bigint,
  owner_plan_uid text,
  owner_plan_generation bigint,
  owner_display_name text,
  owner_named_owners jsonb not null default '[]',
  -- By how much the clock of its test messages is ahead, in milliseconds.
  test_clock_ms bigint not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check ((status = 'suspended') = (suspension_reason is not null))
);
create index tenants_deleting on tenants (slug) where status = 'deleting';

-- What api and worker enforce. `limits` uses the names of the plan table verbatim. No row: the free plan.
create table tenant_limits (
  tenant_id uuid primary key references tenants on delete cascade,
  generation bigint not null default 1,
  plan text not null,
  overrides jsonb not null default '{}',
  limits jsonb not null,
  updated_at timestamptz not null default now()
);

-- Brakes of channels whose messages bounce too often, or whose recipients complain too often (core/domain/decide-brake.ts), by
-- tenant. A row stays when its brake is lifted, without a level.
create table brakes (
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null check (channel in ('sms', 'email', 'push', 'whatsapp')),
  level text check (level in ('slowed', 'held')),
  reason text not null check (reason in ('hard_bounce_rate', 'complaint_rate')),
  rate numeric not null,
  bound numeric not null,
  applied_at timestamptz not null,
  -- While it is slowed: between two messages, in milliseconds, and when the next one may go (`take_brake_turns`).
  gap_ms float8 not null check (gap_ms > 0),
  next_at timestamptz not null,
  -- When it was lifted last: what became final before counts for nothing.
  lifted_at timestamptz,
  primary key (tenant_id, channel)
);

-- A user without a subject is an invitation by e-mail that nobody has taken up yet.
create table users (
  id uuid primary key default gen_random_uuid(),
  issuer text not null,
  subject text,
  email text,
  name text,
  -- Has proven to be this subject: one who was merely named may never come.
  has_signed_in boolean not null default false,
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
    case when t.owner_uid is not null then t.owner_ref end as owner_ref, t.created_at, l.limits, l.overrides,
    (select json_agg(json_build_object('channel', b.channel, 'level', b.level, 'reason', b.reason, 'rate', b.rate, 'bound', b.bound,
      'at', b.applied_at) order by b.channel) from brakes b where b.tenant_id = t.id and b.level is not null) as brakes
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
  -- The latest of those before it, which are good for nothing: who still uses one is told why.
  former_secret_hashes bytea[] not null default '{}',
  grace_until timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz not null default now()
);
create index api_keys_tenant on api_keys (tenant_id, seq desc);

-- When keys were last used. Apart from them, as it is written again and again, and every call with a key reads the key.
create table api_key_uses (
  api_key_id uuid primary key references api_keys on delete cascade,
  tenant_id uuid not null,
  last_used_at timestamptz not null
) with (fillfactor = 50);

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

-- How a tenant's messages of a channel find an account (core/domain/route.ts), once it has set that. A change is a row of the
-- next version: what was decided by an earlier one can be decided again. `steps`: [{accountId, weight}].
create table routes (
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null check (channel in ('sms', 'email', 'push', 'whatsapp')),
  version integer not null check (version > 0),
  strategy text not null check (strategy in ('priority', 'weighted')),
  steps json not null,
  -- Classes of failures.
  failover_on text[] not null,
  -- How long a message waits for an account that cannot be called before it goes on to the next one; null: as long as it takes.
  max_wait_ms integer check (max_wait_ms between 0 and 86400000),
  -- How long a sent message waits for its receipt before it goes on to the next account as well; null: it never does.
  receipt_timeout_ms integer check (receipt_timeout_ms between 10000 and 86400000),
  created_at timestamptz not null default now(),
  -- When the next version came into force; null of the one in force.
  replaced_at timestamptz,
  primary key (tenant_id, channel, version)
);
create unique index routes_in_force on routes (tenant_id, channel) where replaced_at is null;
create index routes_replaced on routes (replaced_at) where replaced_at is not null;

create table audit_log (
  seq bigint generated always as identity primary key,
  id uuid not null default gen_random_uuid(),
  -- By the reference whoever writes an entry holds the tenant's row: the end of a purge waits for all that people change.
  tenant_id uuid references tenants on delete cascade,
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

-- Insert-only; `content` alone is emptied, where the sender asked for that or an admin erases it, and `scheduled_at` is set anew
-- while the message is scheduled.
create table messages (
  seq bigint not null,
  enqueued_at timestamptz not null,
  purge_on date not null,
  priority smallint not null,
  segments smallint,
  test boolean not null,
  id uuid not null,
  tenant_id uuid not null,
  api_key_id uuid,
  pinned_account_id uuid,
  channel text not null,
  recipient text not null,
  -- The recipient in its normal form, where that is another one.
  address text,
  sender text,
  content jsonb,
  external_id text,
  category text not null,
  encoding text,
  delivery_guarantee text not null,
  content_retention text not null,
  metadata jsonb,
  tags text[],
  traceparent text,
  -- Of the request that was answered with the 202, so that every process's log can name it.
  request_id text,
  -- Of the request that it came in, where that was for several.
  batch_id uuid,
  -- Of the route that chose its account; null where the sender named that, or no route was set.
  route_version integer,
  -- Accounts of the route that would have gone first and could not be used; null where there are none.
  route_skipped uuid[],
  -- The message that it sends again.
  parent_id uuid,
  -- Where the sender named an instant that was still to come: that instant, as last set; of a test message by the tenant's test
  -- clock, while its live row has it by ours.
  scheduled_at timestamptz,
  primary key (seq, purge_on)
) partition by range (purge_on);
create index messages_list on messages (tenant_id, enqueued_at desc, seq desc);
create index messages_external on messages (tenant_id, external_id, enqueued_at desc, seq desc)
  where external_id is not null;
create index messages_batch on messages (tenant_id, batch_id, enqueued_at desc, seq desc) where batch_id is not null;
-- A test key sees these alone, however many others there are.
create index messages_test on messages (tenant_id, enqueued_at desc, seq desc) where test;

-- Starts of workers that have asked for messages; the rows of attempts name one by its number.
create table workers (
  id integer generated always as identity primary key,
  -- As the process names this start of itself in its log.
  name text not null unique,
  first_claim_at timestamptz not null default now()
);

-- Messages for which a provider may still be called: scheduled, queued, deferred, held, sending. One narrow row each, from acceptance
-- to the end of the last call; here alone a message waits, is claimed and is put off. `due_at` is when somebody should
-- look at it, which covers the lost wake-up, the retry timer and the lease; a claim leaves it as it is, so that its
-- update touches no index and stays on its page (HOT).
create table live_messages (
  seq bigint primary key,
  due_at timestamptz not null,
  expires_at timestamptz not null,
  -- The last change other than the begin of an attempt.
  updated_at timestamptz not null,
  purge_on date not null,
  -- Of what counts towards the bytes of a claim; null where that is little, as for nearly all.
  content_bytes integer,
  -- 0 to 2, the most urgent first; three more while the message is scheduled, so that nobody who looks for what can be sent
  -- passes it in `live_messages_due`, however many fall due at one instant.
  priority smallint not null,
  segments smallint,
  retries smallint not null default 0,
  ambiguous smallint not null default 0,
  provider_waits smallint not null default 0,
  -- How often it was given to another account while it waited.
  reassigned smallint not null default 0,
  duplicate_risk boolean not null default false,
  test boolean not null,
  -- Whether the sender named the account.
  pinned boolean not null,
  -- Of the category that `suppressions` may stop alone.
  marketing boolean not null default false,
  tenant_id uuid not null,
  -- Through which account it is to go out; the nil uuid for a simulator.
  account_id uuid not null,
  channel text not null,
  -- Under which `suppressions` has its recipient.
  address_key bytea,
  reason text,
  failure jsonb,
  held_at timestamptz,
  held_from text,
  -- When it was given back for the last time: until then no worker could have sent it.
  released_at timestamptz,
  -- Of a message that was sent, and goes on to another account as no receipt came: the attempt that its provider accepted, and
  -- through which account. It ends in no state in which its receipts would count for nothing, but is `sent` again.
  sent_attempt integer,
  sent_account_id uuid,
  next_attempt_at timestamptz,
  -- What a claim changes stands last, as an update logs a row from its first change on. The last attempt begun is committed
  -- before its provider is called; when it has ended `attempt_log` or the message's result has it too.
  started_at timestamptz,
  lease_until timestamptz,
  attempt integer not null default 0,
  -- The number of the worker that began it.
  worker integer,
  status text not null,
  provider text
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index live_messages_due on live_messages (tenant_id, account_id, priority, due_at);

-- Recipients that a tenant's messages must not go to. `address_key` is a keyed hash of tenant, channel and normal address
-- (core/domain/address-key.ts), by which entries are found whether or not the address itself is kept. A recipient has one
-- entry for each reason; who adds another one replaces it.
create table suppressions (
  seq bigint generated always as identity primary key,
  id uuid not null default gen_random_uuid(),
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null check (channel in ('sms', 'email', 'push', 'whatsapp')),
  address_key bytea not null check (length(address_key) = 16),
  -- In its normal form; null where only the hash is kept.
  address text,
  reason text not null check (reason in ('hard_bounce', 'complaint', 'unsubscribe', 'opt_out', 'manual')),
  -- `marketing`: messages of that category alone.
  scope text not null check (scope in ('all', 'marketing')),
  source text not null check (source in ('api', 'import', 'receipt', 'refusal', 'recipient')),
  -- The message that caused it, which may be gone.
  message_id uuid,
  -- From then on it counts for nothing.
  expires_at timestamptz,
  created_at timestamptz not null default clock_timestamp()
);
-- With all that a claim asks for. The key is of one tenant and channel. Who looks by it compares the tenant in a way that no
-- index can answer: of hardly any rows, a planner would as soon read all of the tenant's.
create unique index suppressions_of on suppressions (address_key, reason) include (tenant_id, scope, expires_at);
create unique index suppressions_id on suppressions (id);
create index suppressions_list on suppressions (tenant_id, seq desc);
create index suppressions_over on suppressions (expires_at) where expires_at is not null;

-- Those in force.
create view suppressions_now with (security_invoker) as
  select s.tenant_id, s.address_key, s.reason, s.scope from suppressions s
  where coalesce(s.expires_at, 'infinity') > clock_timestamp();

-- Messages for which no provider will be called any more, and what became of them. Only receipts change a row: what they
-- change comes last, as an update logs a row from its first change on.
create table message_results (
  seq bigint not null,
  expires_at timestamptz not null,
  -- The attempt that the provider accepted has no row of its own. Null where none was.
  event_seq bigint,
  started_at timestamptz,
  sent_at timestamptz,
  purge_on date not null,
  attempt integer not null,
  worker integer,
  http_status smallint,
  -- How often it was given to another account while it waited; null for never.
  reassigned smallint,
  duplicate_risk boolean not null,
  -- Receipts may name the message by the provider's id alone.
  found_by_id boolean,
  tenant_id uuid not null,
  account_id uuid,
  provider text,
  provider_message_id text,
  -- The account's own sender, where the provider accepted a message that named none.
  sent_from text,
  -- The attempt that the provider accepted, where a later one was not: then the log has it too. Its copy decides.
  sent_attempt integer,
  updated_at timestamptz not null,
  completed_at timestamptz,
  delivered_at timestamptz,
  final boolean not null,
  -- What receipts say besides: some segments may have arrived; a bounce came after the delivery; by copy and segment
  -- (core/domain/reported-copies.ts), where the state does not say it; when it was first opened and so on, in milliseconds
  -- since the epoch.
  partial boolean not null default false,
  late_bounce boolean not null default false,
  status text not null,
  reason text,
  failure jsonb,
  segment_states jsonb,
  engagement jsonb,
  primary key (seq, purge_on)
) partition by range (purge_on);
create index message_results_found_by_id on message_results (provider_message_id) where found_by_id;

-- Where a message stands, wherever it is. Nearly all have ended: who looks for one finds it at the first look, in a plan
-- that reads the parts in this order.
create view message_states with (security_invoker) as
  select seq, purge_on, tenant_id, status, reason, attempt, duplicate_risk, account_id, provider, provider_message_id,
    sent_from, null::timestamptz as next_attempt_at, failure, final, partial, late_bounce, engagement, expires_at, sent_at,
    delivered_at, completed_at, updated_at, coalesce(reassigned, 0::smallint) as reassigned, sent_attempt
  from message_results
  union all
  -- Why it waited and until when comes back with the state that a message is held from.
  select seq, purge_on, tenant_id, status,
    case when status <> 'held' then reason
      when not test and exists (
        select from brakes b where b.tenant_id = live_messages.tenant_id and b.channel = live_messages.channel and b.level = 'held')
        then 'abuse_brake' end, attempt, duplicate_risk,
    case when attempt > 0 and not test then account_id end, provider, null, null,
    case when status <> 'held' then next_attempt_at end, failure, false, false,
    false, null, expires_at, null, null, null, case when status = 'sending' then started_at else updated_at end, reassigned, null
  from live_messages;

-- Sent messages whose provider reports what became of them, until it has or the wait is over.
create table awaited_receipts (
  seq bigint primary key,
  purge_on date not null,
  tenant_id uuid not null,
  due_at timestamptz not null,
  test boolean not null default false
);
create index awaited_receipts_due on awaited_receipts (due_at);
-- No other waits are moved with a test clock.
create index awaited_receipts_test on awaited_receipts (tenant_id) where test;

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
  provider text not null,
  -- A question is due, and the account may be asked.
  next_at timestamptz not null,
  -- Nothing is asked before: a worker asks it now, its pace, and the pause of an account that does not answer.
  open_at timestamptz not null,
  -- How often in a row the account has not answered.
  failures smallint not null default 0,
  -- Which turn it is, so that a worker that was overtaken moves nothing.
  turn integer not null default 0
) with (fillfactor = 50);
create index lookup_turns_next on lookup_turns (next_at) where failures = 0;
create index lookup_turns_failing on lookup_turns (next_at) where failures > 0;

-- Sent messages that go on to another account if their provider does not report on them by `due_at`; of routes with such a
-- time alone. A receipt leaves its row alone, which goes when it is due.
create table failover_waits (
  seq bigint primary key,
  purge_on date not null,
  tenant_id uuid not null,
  due_at timestamptz not null
);
create index failover_waits_turns on failover_waits (tenant_id, due_at);

-- Attempts that have ended, each with the state it left its message in: those that no provider accepted, and accepted ones of
-- messages that went on to another account. Insert-only.
create table attempt_log (
  message_seq bigint not null,
  event_seq bigint not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  purge_on date not null,
  number integer not null,
  worker integer not null,
  http_status smallint,
  tenant_id uuid not null,
  account_id uuid,
  provider text not null,
  outcome text not null,
  reason text,
  failure jsonb,
  message_status text not null,
  message_reason text,
  message_failure jsonb,
  -- Which other account was to send the message next, and why that one (core/domain/failover.ts); null for none.
  rerouted jsonb,
  -- Of an accepted one, as its result had it: by what its receipts are found, and how long they were to be waited for.
  provider_message_id text,
  found_by_id boolean,
  sent_from text,
  await_until timestamptz,
  primary key (message_seq, purge_on, number)
) partition by range (purge_on);
create index attempt_log_found_by_id on attempt_log (provider_message_id) where found_by_id;

-- What happened to messages other than by an attempt: receipts, expiry, holds. Append-only.
create table event_log (
  message_seq bigint not null,
  purge_on date not null,
  event_seq bigint not null,
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

-- One order for both logs, and the attempt that was accepted.
create sequence event_seq;
alter table attempt_log alter event_seq set default nextval('event_seq');
alter table event_log alter event_seq set default nextval('event_seq');

-- Every attempt, the one under way and the one that was accepted among them. `workers` has the names of its workers.
create view attempts with (security_invoker) as
  select message_seq, purge_on, number, tenant_id, account_id, provider, worker, outcome, reason, failure,
    http_status, started_at, ended_at
  from attempt_log
  union all
  select seq, purge_on, attempt, tenant_id, case when not test then account_id end, provider, worker,
    'started', null, null, null, started_at, null
  from live_messages where status = 'sending'
  union all
  select seq, purge_on, attempt, tenant_id, account_id, provider, worker, 'accepted', null, null,
    http_status, started_at, sent_at
  from message_results where started_at is not null;

-- Everything that happened to a message after its acceptance. An attempt that was never begun is no event. Neither has an id:
-- it is made of the message's place and the number (`core/domain/event-id.ts`).
create view events with (security_invoker) as
  select event_seq, message_seq, purge_on, tenant_id, type, source, applied, details, at from event_log
  union all
  select event_seq, message_seq, purge_on, tenant_id,
    'message.' || case when message_reason = 'failed_over' then 'failed_over' else message_status end, 'worker', true,
    jsonb_strip_nulls(jsonb_build_object('attempt', number, 'reason', message_reason, 'failure', message_failure,
      'rerouted', rerouted)), ended_at
  from attempt_log where message_status <> 'queued'
  union all
  select event_seq, seq, purge_on, tenant_id, 'message.sent', 'worker', true,
    jsonb_build_object('attempt', attempt), sent_at
  from message_results where started_at is not null;

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

-- Receipts that are read and not yet applied.
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
  -- Of an answer that came late: how long its receipt is awaited; null where none is.
  await_ms bigint,
  receipt text check (receipt in ('sent', 'delivered', 'undelivered')),
  temporary boolean not null default false,
  failure jsonb,
  segment text,
  engagement text,
  provider_status text,
  -- Whether the provider has said so for certain: its signature holds, or it was asked. Null for what no provider has said.
  verified boolean,
  -- The provider was asked; it has not reported by itself.
  asked boolean not null default false,
  -- Of the span in which the vendor's call was taken.
  traceparent text,
  -- When it happened, as the provider says.
  happened_at timestamptz,
  report_key text,
  received_at timestamptz not null default clock_timestamp(),
  apply_at timestamptz not null,
  -- It is looked at when `apply_at` comes: a simulator's, or one that has been looked at and has no message yet, such as one
  -- that has overtaken the record of its call. Others are looked at as soon as it is their account's turn.
  waiting boolean not null default false
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- A tenant's simulators have their turn as an account has.
create index receipts_turns on receipts (coalesce(account_id, tenant_id), apply_at) where not waiting;
create index receipts_waiting on receipts (apply_at) where waiting;
-- How many wait is bounded for each account.
create index receipts_waiting_of on receipts (account_id) where waiting and account_id is not null;

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
  -- When to look into it; until `leased_until` it belongs to who does. The lease is in no index: to take a call is an update
  -- that stays on its page (HOT).
  due_at timestamptz not null,
  leased_until timestamptz not null default '-infinity',
  tries smallint not null default 0
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- Read once and deleted: to compress one costs more than it saves.
alter table receipt_calls alter body set storage external;
create index receipt_calls_due on receipt_calls (account_id, due_at);

-- Events out -----------------------------------------------------------------------------------------------------------
-- A tenant's feed is its events in the order of their commits, numbered without a hole. Whoever commits one names it in
-- `changes` and waits for nobody; a worker numbers them afterwards (`number_changes`).

-- What happened to a tenant and to its accounts. Append-only, kept as long as a message of that moment.
create table tenant_events (
  event_seq bigint not null default nextval('event_seq'),
  purge_on date not null,
  tenant_id uuid not null,
  type text not null,
  details jsonb not null,
  at timestamptz not null,
  primary key (event_seq, purge_on)
) partition by range (purge_on);
create index tenant_events_tenant on tenant_events (tenant_id);

-- Names the events that a transaction has stored: rows of other tables, by their keys. A row for each call of a function
-- that stores some, written when it holds all its locks: `id` orders what waited for each other. No row is ever read twice,
-- nor are deleted ones passed over: `feed_passes` knows where to begin.
create table changes (
  xid xid8 not null default pg_current_xact_id(),
  id bigint not null generated always as identity,
  at timestamptz not null default clock_timestamp(),
  -- Whose the events are: tenants, and how many of the events, in their order, are each one's.
  tenant_ids uuid[] not null,
  counts integer[] not null,
  -- Message 0: the event is in `tenant_events`.
  seqs bigint[] not null,
  purge_ons date[] not null,
  -- An event's number, or an attempt's below zero; null for the acceptance.
  numbers bigint[]
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index changes_xid on changes (xid);

-- How far the numbering has come, the last row alone. Rows are added and none is updated: versions of one row would pile
-- up under an old snapshot. All that `done` sees is numbered; `target`, where there is one, is numbered up to `after_id`.
create table feed_passes (
  id bigint primary key generated always as identity,
  at timestamptz not null default clock_timestamp(),
  done pg_snapshot not null,
  target pg_snapshot,
  after_id bigint not null default 0,
  -- The highest that is numbered, for a database that was restored into another cluster.
  last_id bigint not null default 0,
  -- Older changes are deleted.
  cleared xid8 not null default '0',
  -- Tenants with webhook endpoints that the pass gave events to.
  endpoint_tenants uuid[] not null default '{}'
);
insert into feed_passes (done) values (pg_current_snapshot());

-- Runs of a tenant's events that lie in one partition, by their keys as in `changes`. Append-only.
create table feed (
  first_seq bigint not null,
  last_seq bigint not null,
  -- Never before that of a lower number.
  numbered_at timestamptz not null,
  tenant_id uuid not null,
  purge_on date not null,
  seqs bigint[] not null,
  -- 0 for the acceptance.
  numbers bigint[] not null,
  primary key (tenant_id, last_seq, purge_on)
) partition by range (purge_on);
create index feed_since on feed (tenant_id, numbered_at, last_seq);

-- The last number of each tenant's feed, and when it was given; kept when the events are purged, so that numbers never repeat. To
-- find it in `feed` takes a look into the partition of each week. A row is replaced and not updated: the newest comes first in the
-- index, before all versions that an old snapshot still sees.
create table feed_heads (
  tenant_id uuid not null,
  last_seq bigint not null,
  numbered_at timestamptz not null,
  primary key (tenant_id, last_seq)
);

-- Where a tenant wants to be told of its events.
create table webhook_endpoints (
  id uuid primary key default gen_random_uuid(),
  -- Of its tenant's endpoints, deleted ones too: 1, 2, and so on (`number_endpoint`). With the number of an event in its feed it
  -- is what a delivery's id hides.
  number bigint not null check (number between 1 and 4194303),
  tenant_id uuid not null references tenants (id),
  url text not null,
  description text,
  -- Types of events, and beginnings of several: `message.*`.
  event_types text[] not null,
  final_only boolean not null default false,
  -- Of messages of these alone; empty: of all. They say nothing about events that are none of a message.
  channels text[] not null default '{}',
  tags text[] not null default '{}',
  headers jsonb not null default '{}',
  -- Events of one message are delivered one after the other.
  ordered boolean not null default false,
  mask_recipients boolean not null default false,
  -- Calls a second; null without a limit.
  rate_limit_per_second integer,
  -- `v1`, `v1a`.
  signatures text[] not null default '{v1}',
  status text not null default 'active' check (status in ('active', 'failing', 'paused', 'disabled')),
  -- Of `disabled`: `gone` (it answered 410), `failing` (it failed for five days).
  status_reason text,
  -- Calls that failed since the last one that did not, and the first of them.
  failures integer not null default 0,
  failing_since timestamptz,
  -- No call is begun before: it fails, or asked for time.
  call_at timestamptz not null default '-infinity',
  -- Ciphertexts under the tenant's key. The former secret signs beside the present one until it is forgotten.
  secret text not null,
  secret_version integer not null default 1,
  previous_secret text,
  previous_until timestamptz,
  -- A certificate and its key, as JSON; null where none is shown.
  client_certificate text,
  has_client_certificate boolean not null generated always as (client_certificate is not null) stored,
  -- Raised with every change of a setting or a secret.
  version integer not null default 1,
  -- The tenant's feed is matched up to here, or further: `endpoint_feed` and `endpoint_positions` know.
  matched_to bigint not null,
  -- The highest number of its own that is purged.
  purged_to bigint not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- No ciphertext is left then. The row stays for as long as anything is left that belongs to it.
  deleted_at timestamptz,
  -- Of a deleted one: when somebody should look whether anything is (`purge_deleted_endpoints`).
  look_on date not null default '-infinity'
-- Room for the versions that an endpoint makes which fails and succeeds by turns: they stay on its page (HOT).
) with (fillfactor = 70);
create unique index webhook_endpoints_number on webhook_endpoints (tenant_id, number);
create index webhook_endpoints_tenant on webhook_endpoints (tenant_id, created_at, id) where deleted_at is null;
create index webhook_endpoints_deleted on webhook_endpoints (look_on) where deleted_at is not null;
create index webhook_endpoints_live on webhook_endpoints (id) where deleted_at is null;
create index webhook_endpoints_status on webhook_endpoints (status) where deleted_at is null;
create index webhook_endpoints_replaced on webhook_endpoints (previous_until) where previous_until is not null;

-- Keys of a tenant that sign by Ed25519 (`v1a`). One signs: a newer one is shown before it does, so that nobody refuses it who
-- remembers the others for a while; the former ones are shown until what they signed is checked.
create table webhook_keys (
  id uuid primary key default gen_random_uuid(),
  tenant_id uuid not null references tenants (id),
  -- 32 bytes, base64url.
  public_key text not null,
  -- The private key (PKCS #8), under the tenant's key; null when it has made way for another one, or soon after.
  ciphertext text,
  signs_from timestamptz not null default now(),
  -- Null for the newest.
  shown_until timestamptz
);
create index webhook_keys_tenant on webhook_keys (tenant_id, signs_from);
create index webhook_keys_replaced on webhook_keys (shown_until) where shown_until is not null;

-- What an endpoint is to be told, as numbered runs of keys like those of `feed`: the tenant's events that its filters let
-- pass. Append-only. `feed_seq`: the tenant's feed is matched up to there. `matched_at` is never before that of a lower number.
create table endpoint_feed (
  first_seq bigint not null,
  last_seq bigint not null,
  feed_seq bigint not null,
  matched_at timestamptz not null,
  endpoint_id uuid not null,
  tenant_id uuid not null,
  purge_on date not null,
  seqs bigint[] not null,
  numbers bigint[] not null,
  -- One event, which a person had told: the endpoint's filters had left it out.
  replayed boolean not null default false,
  primary key (endpoint_id, last_seq, purge_on)
) partition by range (purge_on);
create index endpoint_feed_since on endpoint_feed (endpoint_id, matched_at, last_seq);
create index endpoint_feed_replayed on endpoint_feed (endpoint_id, (seqs[1])) where replayed;

-- Where the tenant's feed is matched further than the newest run of an endpoint's own says: nothing of it passed its filters.
-- A row makes way for a higher one, which is found from that end: versions of one would pile up under an old snapshot.
create table endpoint_positions (
  endpoint_id uuid not null,
  feed_seq bigint not null,
  tenant_id uuid not null,
  primary key (endpoint_id, feed_seq)
);

-- How far the tenant's feed is matched for an endpoint, and its own is numbered.
create view endpoint_reach with (security_invoker) as
  select w.id, greatest(w.matched_to, f.feed_seq, p.feed_seq) as matched_to, greatest(w.purged_to, f.last_seq) as last_seq,
    f.matched_at
  from webhook_endpoints w
  left join lateral (
    select x.feed_seq, x.last_seq, x.matched_at from endpoint_feed x where x.endpoint_id = w.id order by x.last_seq desc limit 1
  ) f on true
  left join lateral (
    select x.feed_seq from endpoint_positions x where x.endpoint_id = w.id order by x.feed_seq desc limit 1
  ) p on true;

-- An event as `read_events` puts it together, and how far that has read.
create type feed_event as (
  scanned integer, end_seq bigint, seq bigint, message_seq bigint, number bigint, purge_on date, event_seq bigint,
  type text, at timestamptz, details jsonb, sequence bigint, message_id uuid, test boolean, external_id text, channel text,
  recipient text, category text, metadata jsonb, tags text[], is_final boolean, attempt integer, account_id uuid, provider text);

-- Deliveries that are still to be made: a stretch of a run, none of which was called for, or one event whose call has failed.
-- It goes when each event of it has succeeded, waits in a row of its own, or is given up.
create table due_deliveries (
  id bigint primary key generated always as identity,
  endpoint_id uuid not null,
  tenant_id uuid not null,
  first_seq bigint not null,
  last_seq bigint not null,
  purge_on date not null,
  -- Of one event for an ordered endpoint: which message it tells of. Later ones of that message wait for it.
  message_seq bigint,
  -- Calls that were made for it.
  attempts smallint not null default 0,
  -- It was asked for by a person, and is no longer on the schedule: one call, and no other after a failure.
  manual boolean not null default false,
  -- When it can be claimed; of a claimed one the end of its lease; infinity where it waits for an earlier event.
  due_at timestamptz not null,
  -- Names the claim that has it; a completion of another one changes nothing.
  claim bigint
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index due_deliveries_of on due_deliveries (endpoint_id, due_at);
-- Looks for what fell due since the last one; what waits for an earlier event is found by no time.
create index due_deliveries_at on due_deliveries (due_at, endpoint_id) where due_at < 'infinity';
create index due_deliveries_seq on due_deliveries (endpoint_id, first_seq);
create index due_deliveries_purge on due_deliveries (purge_on);
create index due_deliveries_message on due_deliveries (endpoint_id, message_seq) where message_seq is not null;
create sequence delivery_claim;

-- Each call that was made, as it ended. Append-only.
create table delivery_attempts (
  endpoint_id uuid not null,
  seq bigint not null,
  -- 1 and up; of one event and endpoint.
  attempt smallint not null,
  purge_on date not null,
  tenant_id uuid not null,
  at timestamptz not null,
  duration_ms integer not null,
  -- Of the answer; null where none came.
  status smallint,
  -- Why there is none: `timeout`, `tls`, `egress_blocked` and so on.
  error text,
  -- The first KiB of the answer's body.
  answer text,
  succeeded boolean not null,
  primary key (endpoint_id, seq, attempt, purge_on)
) partition by range (purge_on);

-- Calls that a person asked for to try an endpoint out; a worker makes each at once, and the row goes within minutes.
create table endpoint_tests (
  id uuid primary key default gen_random_uuid(),
  endpoint_id uuid not null,
  tenant_id uuid not null,
  asked_at timestamptz not null default clock_timestamp(),
  -- When another worker may take it.
  due_at timestamptz not null default '-infinity',
  -- The exchange, when it is over.
  result jsonb
);
create index endpoint_tests_age on endpoint_tests (asked_at);

create table tenant_events_default partition of tenant_events default;
create table feed_default partition of feed default with (toast_tuple_target = 8160);
create table endpoint_feed_default partition of endpoint_feed default with (toast_tuple_target = 8160);
create table delivery_attempts_default partition of delivery_attempts default;

-- What a worker is given of a message that is under way: `send` for one to call the provider for, `lost` for an attempt
-- whose lease is over, which nobody needs the content of. `discard`: the content is to go as soon as no provider needs it.
create view claimed_message with (security_invoker) as
  select case when l.lease_until <= clock_timestamp() then 'lost' else 'send' end as action, l.seq, l.purge_on, m.id, l.tenant_id, l.attempt, l.retries, l.ambiguous, l.provider_waits,
    l.duplicate_risk, l.channel, coalesce(m.address, m.recipient) as address, m.sender, case when l.lease_until > clock_timestamp() then m.content end as content,
    l.content_bytes, l.test, l.segments, m.delivery_guarantee, least(greatest(m.enqueued_at, m.scheduled_at), clock_timestamp()) as waits_since,
    l.expires_at, m.traceparent, m.request_id, case when not l.test then l.account_id end as account_id, l.provider,
    p.status as account_status, p.version as account_version,
    -- Of a slowed channel that is at most what it may send: its messages too are claimed out of their lane alone.
    least(p.rate_limit_per_second, (
      select greatest(1, ceil(1000 / b.gap_ms))::integer from brakes b
      where b.tenant_id = l.tenant_id and b.channel = l.channel and b.level = 'slowed' and not l.test)) as rate_limit_per_second,
    m.content_retention = 'discard' as discard, l.marketing, l.pinned, l.sent_account_id, l.released_at,
    -- Asked for each message and not joined: a planner that knows of hardly any brakes would begin with them.
    exists (select from brakes b
      where b.tenant_id = l.tenant_id and b.channel = l.channel and b.level = 'slowed' and not l.test) as is_slowed
  from live_messages l
  join messages m on m.seq = l.seq and m.purge_on = l.purge_on
  left join provider_accounts p on p.id = l.account_id
  where l.status = 'sending';

-- What the decision about a message that was not claimed needs to know. `account_status` is null where there is no account.
create view waiting_message with (security_invoker) as
  select l.seq, l.purge_on, m.id, l.tenant_id, t.status as tenant_status, l.status, l.attempt, l.ambiguous, l.account_id,
    p.status as account_status, p.provider,
    least(p.rate_limit_per_second, case when b.level = 'slowed' then greatest(1, ceil(1000 / b.gap_ms))::integer end)
      as rate_limit_per_second,
    b.level as brake, l.pinned, l.channel, l.test, l.lease_until,
    l.next_attempt_at, l.expires_at, l.due_at, least(greatest(m.enqueued_at, m.scheduled_at), clock_timestamp()) as waits_since, m.request_id,
    -- By this clock: no worker's own decides.
    coalesce(l.next_attempt_at, '-infinity') <= clock_timestamp() as is_due,
    l.expires_at <= clock_timestamp() as is_expired,
    l.status = 'sending' and l.lease_until <= clock_timestamp() as is_lease_over,
    -- How long it could have been claimed by now: since it is due, or was given to its account.
    case when l.due_at < clock_timestamp() then floor(extract(epoch from clock_timestamp() - l.due_at) * 1000)::bigint else 0 end as waited_ms,
    l.reassigned, l.sent_attempt is not null as is_sent,
    -- Accounts that it has left as their rate was used up.
    case when l.reassigned > 0 then array(select (e.details ->> 'from')::uuid from event_log e
      where e.message_seq = l.seq and e.purge_on = l.purge_on and e.type = 'message.failed_over'
        and e.details ->> 'why' = 'rate_used_up' order by e.event_seq)
      else '{}' end as left_for_rate,
    -- Why its recipient gets none of these; null where nothing says so.
    (select s.reason from suppressions_now s
      where s.address_key = l.address_key and s.tenant_id is not distinct from l.tenant_id and (s.scope = 'all' or l.marketing)
      order by s.reason limit 1) as suppression,
    case when l.attempt > 0 then array(
      select a.account_id from attempt_log a
      where a.message_seq = l.seq and a.purge_on = l.purge_on and a.outcome in ('rejected_permanent', 'accepted')) else '{}' end as refused_by
  from live_messages l
  join tenants t on t.id = any (array[l.tenant_id])
  join messages m on m.seq = l.seq and m.purge_on = l.purge_on
  left join provider_accounts p on p.id = l.account_id and p.status <> 'deleted'
  left join brakes b on b.tenant_id = l.tenant_id and b.channel = l.channel and b.level is not null and not l.test;

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
-- The counts of one owner are in its row with the highest `slot`, which is found from that end of the key. After a few dozen
-- `uses` (`uses_per_slot`) a row makes way for one of the next slot: versions of it that a snapshot keeps, such as that of a
-- backup, are behind whoever looks (ADR 25). Whoever counts has the owner's row in `counter_locks`.

-- Rows that are locked and never changed: one that waits for a lock finds the row that it waited for.
create table counter_locks (
  owner uuid not null,
  -- `accepted` and `finished` of a tenant, `calls` of a subject, `tokens` of an account.
  counter text not null,
  primary key (owner, counter)
);

-- The calls of one subject (api key, tenant or user) in the last 61 seconds up to `second`, the oldest first. What a call
-- changes within a second stands at the end, side by side: an update logs no more than what has changed of a row.
create table rate_windows (
  subject uuid not null,
  slot bigint not null default 1,
  second bigint not null default 0,
  counts integer[] not null default array_fill(0, array[61]),
  -- The sum of `counts`, kept so that it need not be taken.
  total integer not null default 0,
  uses smallint not null default 0,
  primary key (subject, slot)
) with (fillfactor = 50);

-- `used` counts the quota of `day`; the others only grow. Moved by the accept path.
create table tenant_usage (
  tenant_id uuid not null,
  slot bigint not null default 1,
  day date not null default '-infinity',
  uses smallint not null default 0,
  used bigint not null default 0,
  -- How much of the day's limit the tenant has been told of: 0, 80 or 100 per cent.
  warned smallint not null default 0,
  accepted bigint not null default 0,
  -- Of them.
  scheduled bigint not null default 0,
  primary key (tenant_id, slot)
) with (fillfactor = 50);

-- Moved by workers; accepted - finished = backlog, of which scheduled - unscheduled wait for their instant. Apart from tenant_usage so that neither path waits
-- for the other's row.
create table tenant_progress (
  tenant_id uuid not null,
  slot bigint not null default 1,
  uses smallint not null default 0,
  finished bigint not null default 0,
  -- Of those that were scheduled: they have become queued, or have ended before.
  unscheduled bigint not null default 0,
  primary key (tenant_id, slot)
) with (fillfactor = 50);

-- Dispatch tokens of the current second, for accounts and webhook endpoints with a rate limit.
create table account_rates (
  account_id uuid not null,
  second bigint not null,
  used integer not null,
  uses smallint not null default 0,
  slot bigint not null default 1,
  primary key (account_id, slot)
) with (fillfactor = 50);

-- Usage ------------------------------------------------------------------------------------------------------------------
-- How many messages a tenant sent and what became of them, by when they were accepted. Who stores a move of messages names
-- it in `usage_moves`, in the same transaction; a worker adds it up afterwards and deletes it (`count_usage`).

-- Moves that are not counted yet, of messages that lie in one partition. Each row is read once.
create table usage_moves (
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null,
  purge_on date not null,
  -- From where, and to where: a state that is no longer live, else `in_progress`. `was` is null for an acceptance; both are
  -- where nothing was moved, and something is told.
  was text,
  became text check (became is not null or tells is not null),
  -- For the brake of their channels (`count_finals`): they are final now, or a provider says that an address does not exist, or
  -- that its recipient has complained.
  tells text check (tells in ('final', 'hard_bounce', 'complaint')),
  -- A provider accepted the messages just then: how long that took is counted too.
  by_call boolean not null default false,
  seqs bigint[] not null,
  -- For each of them: the account of the state that is no longer live; and how long its receipt took.
  account_ids uuid[],
  receipt_ms bigint[],
  -- How the calls speak of these accounts that the moves come from (core/domain/call-end.ts), and how long each took; null
  -- where none was made. A message that waits on after a call is told of as one that moved from `in_progress` to there.
  call_end text,
  call_ms integer[]
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index usage_moves_xid on usage_moves (xid);

-- The last final messages of a tenant's channel in the order in which they became final, in stretches of fifty; of the last
-- twenty full ones and the one that is being filled rates are taken. What is said of a message later counts where its channel is.
create table final_stretches (
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null,
  stretch bigint not null,
  finals integer not null,
  hard_bounces integer not null,
  complaints integer not null,
  primary key (tenant_id, channel, stretch)
) with (fillfactor = 70);

-- How many became final in each hour of the last 24: how fast a channel was before it is slowed.
create table final_hours (
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null,
  hour timestamptz not null,
  finals integer not null,
  primary key (tenant_id, channel, hour)
) with (fillfactor = 70);

-- How far the counting has come, the last row alone. Rows are added and none is updated: versions of one row would pile
-- up under an old snapshot.
create table usage_passes (
  id bigint primary key generated always as identity,
  at timestamptz not null default clock_timestamp(),
  -- Moves of older transactions are counted.
  from_xid xid8 not null,
  -- Nothing was left that this pass could see.
  is_whole boolean not null
);
insert into usage_passes (from_xid, is_whole) values (pg_snapshot_xmin(pg_current_snapshot()), true);

-- Each message of a tenant's, once in each dimension (of tags once for each of them), but for those of test keys. `period`
-- begins with the hour or the day (UTC) of its acceptance.
create table usage_counts (
  tenant_id uuid not null,
  -- `hour` and `day`: by channel and account; `key` and `tag`: by that and the day.
  dimension text not null check (dimension in ('hour', 'day', 'key', 'tag')),
  period timestamptz not null,
  -- Empty for keys and tags.
  channel text not null,
  -- The account's id, the key's, or the tag. Empty: there is none; of tags: all those beyond the first hundred of a day.
  value text not null,
  -- `in_progress`, or a state that is no longer live.
  status text not null,
  messages bigint not null,
  segments bigint not null,
  primary key (tenant_id, dimension, period, channel, value, status)
) with (fillfactor = 70);
create index usage_counts_period on usage_counts (period);

-- How long it took until a provider had accepted a message (`provider`), and from then on until its receipt said what became
-- of it (`receipt`): how many messages by length (core/domain/time-buckets.ts).
create table usage_times (
  tenant_id uuid not null,
  dimension text not null,
  period timestamptz not null,
  channel text not null,
  value text not null,
  until text not null check (until in ('provider', 'receipt')),
  counts bigint[] not null,
  primary key (tenant_id, dimension, period, channel, value, until)
) with (fillfactor = 70);
create index usage_times_period on usage_times (period);

-- What an account's calls came to, and what receipts said of its messages, by the five minutes in which that happened; those of
-- test keys are not among them. Kept for 25 hours: a day up to now has all of its rows.
create table account_counts (
  tenant_id uuid not null,
  account_id uuid not null,
  -- When the five minutes begin.
  period timestamptz not null,
  -- Calls by how they speak of the account.
  accepted bigint not null,
  refused bigint not null,
  failed bigint not null,
  -- Messages of which a receipt said so; below zero where one that was said so before is said to be the other now.
  delivered bigint not null,
  undelivered bigint not null,
  -- How many calls by their length (core/domain/time-buckets.ts).
  call_times bigint[] not null,
  primary key (tenant_id, account_id, period)
) with (fillfactor = 70);
create index account_counts_period on account_counts (period);

-- Isolation -------------------------------------------------------------------------------------------------------------

do $$
declare t text;
begin
  foreach t in array array['tenant_limits', 'members', 'api_keys', 'api_key_uses', 'provider_accounts', 'routes', 'audit_log', 'messages',
    'live_messages', 'suppressions', 'message_results', 'awaited_receipts', 'lookups', 'failover_waits', 'message_contents', 'unsettled_contents', 'attempt_log',
    'event_log', 'receipts', 'receipt_calls', 'idempotency_keys', 'tenant_usage', 'tenant_progress', 'tenant_events', 'feed',
    'feed_heads', 'usage_counts', 'usage_times', 'account_counts', 'brakes', 'final_stretches', 'final_hours', 'webhook_endpoints', 'webhook_keys', 'endpoint_feed', 'endpoint_positions', 'due_deliveries',
    'delivery_attempts', 'endpoint_tests', 'tenant_events_default', 'feed_default', 'endpoint_feed_default',
    'delivery_attempts_default', 'messages_default', 'message_results_default', 'message_contents_default', 'attempt_log_default', 'event_log_default',
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
  foreach t in array array['counter_locks', 'rate_windows', 'account_rates', 'lookup_turns', 'gone_resources', 'message_id_key',
    'workers', 'changes', 'feed_passes', 'usage_moves', 'usage_passes'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy definer on %I to despatch_definer using (true) with check (true)', t);
  end loop;
end $$;

-- The api reads and writes its tenant's rows; it can write a provider's ciphertext and never read one, nor a key's hash.
grant usage on schema despatch to despatch_api, despatch_worker, despatch_controller;
grant select on tenants, tenant_limits, members, users, api_key_uses, messages, live_messages, message_results, message_states,
  attempt_log, attempts, event_log, events, tenant_events, feed, feed_heads, endpoint_feed, due_deliveries, delivery_attempts,
  endpoint_tests, audit_log, tenant_usage, tenant_progress, usage_counts, usage_times, account_counts, brakes to despatch_api;
grant select, insert on routes to despatch_api;
grant update (replaced_at) on routes to despatch_api;
grant update (name, updated_at) on tenants to despatch_api;
grant insert, delete on members to despatch_api;
grant update (role) on members to despatch_api;
grant insert on audit_log to despatch_api;
grant select (seq, id, tenant_id, key_id, name, mode, scopes, rate_limit_rpm, grace_until, expires_at, revoked_at,
  created_at), insert, update on api_keys to despatch_api;
grant select (seq, id, tenant_id, provider, channel, label, status, status_reason, health, config_public,
  rate_limit_per_second, secret_version, version, verify_requested_at, verification_at, verification_result,
  verification_reason, verified_at, receipt_version, receipt_grace_until, reported_at, receipt_refused_at,
  receipt_refused_reason, created_at, updated_at), insert, update on provider_accounts to despatch_api;
grant select (id, number, tenant_id, url, description, event_types, final_only, channels, tags, headers, ordered, mask_recipients,
  rate_limit_per_second, signatures, status, status_reason, failures, failing_since, call_at, secret_version, previous_until,
  has_client_certificate, version, matched_to, purged_to, created_at, updated_at, deleted_at), insert, update on webhook_endpoints to despatch_api;
grant select (id, tenant_id, public_key, signs_from, shown_until), insert, update on webhook_keys to despatch_api;
grant update (due_at) on due_deliveries to despatch_api;
grant insert, delete on endpoint_tests to despatch_api;
grant select, insert, update, delete on suppressions to despatch_api;
grant execute on function current_tenant() to despatch_api, despatch_worker, despatch_controller;
