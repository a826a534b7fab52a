-- Tables. Everything is in schema `despatch` and belongs to `despatch_definer`, a role that cannot log in. Row-level security is
-- forced on every table with tenants' rows: with `app.tenant` unset no row is visible.

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
  -- `owner_uid` is set while a resource owns the tenant. `owner_ref` ("namespace/name") stays after the resource is gone, so that
  -- a resource of the same name can take the tenant back. (`owner_created_at`, `owner_generation`) orders the states of resources
  -- of one name: a stale read never undoes a newer state. Name and members belong to the api; a resource sets them only when it
  -- names something new, so the values that it named last are stored. A tenant that was deleted through the api has no
  -- `owner_ref`, and `api:` with its id as `owner_uid`.
  owner_uid text,
  owner_ref text,
  owner_created_at timestamptz,
  owner_generation bigint,
  owner_plan_uid text,
  owner_plan_generation bigint,
  owner_display_name text,
  owner_named_owners jsonb not null default '[]',
  -- By how many milliseconds the clock of its test messages is ahead.
  test_clock_ms bigint not null default 0,
  -- The user who created the tenant through the API; null for a declared tenant.
  created_by uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check ((status = 'suspended') = (suspension_reason is not null))
);
create index tenants_deleting on tenants (slug) where status = 'deleting';
create index tenants_creator on tenants (created_by) where created_by is not null;

-- The limits that api and worker enforce. `limits` uses the names of the plan table verbatim. A tenant without a row has the free
-- plan.
create table tenant_limits (
  tenant_id uuid primary key references tenants on delete cascade,
  generation bigint not null default 1,
  plan text not null,
  overrides jsonb not null default '{}',
  limits jsonb not null,
  updated_at timestamptz not null default now()
);

-- Brakes on a tenant's channels whose bounce or complaint rate is too high (core/domain/tenant/decide-brake.ts). When a brake is lifted
-- its row stays, without a level.
create table brakes (
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null check (channel in ('sms', 'email', 'push', 'whatsapp')),
  level text check (level in ('slowed', 'held')),
  reason text not null check (reason in ('hard_bounce_rate', 'complaint_rate')),
  rate numeric not null,
  bound numeric not null,
  applied_at timestamptz not null,
  -- For a slowed channel: the milliseconds between two messages, and when the next one may be sent (`take_brake_turns`).
  gap_ms float8 not null check (gap_ms > 0),
  next_at timestamptz not null,
  -- When the brake was last lifted: messages that became final before do not count, nor do reports about them.
  lifted_at timestamptz,
  primary key (tenant_id, channel)
);

-- A user without a subject is an invitation by e-mail that has not been accepted yet.
create table users (
  id uuid primary key default gen_random_uuid(),
  issuer text not null,
  subject text,
  email text,
  name text,
  -- Whether the person has signed in as this subject; a person who was only named may never do so.
  has_signed_in boolean not null default false,
  created_at timestamptz not null default now(),
  unique (issuer, subject)
);
create index users_pending on users (lower(email)) where subject is null;

create table members (
  tenant_id uuid not null references tenants on delete cascade,
  user_id uuid not null references users on delete cascade,
  role text not null check (role in ('owner', 'admin', 'developer', 'viewer')),
  -- Whether the tenant may see the person's e-mail address: it invited that address, or the person created the tenant. For a
  -- person named by subject it does not learn an address known elsewhere.
  email_known boolean not null default false,
  created_at timestamptz not null default now(),
  primary key (tenant_id, user_id)
);
create index members_user on members (user_id);

create index members_list on members (tenant_id, created_at desc, user_id desc);

-- Resources known to be deleted: a controller with a stale view of the cluster can neither apply them nor recreate a purged
-- tenant. Rows are kept for longer than a process can be paused.
create table gone_resources (
  uid text primary key,
  gone_at timestamptz not null default now()
);

-- A tenant and its limits, as the api sees them; deleted tenants are left out. Only functions of the schema read it. `owner_ref`
-- is shown only while a resource owns the tenant.
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
  -- The latest secrets before the previous one; they are invalid, but a caller who still uses one is told why it is refused.
  former_secret_hashes bytea[] not null default '{}',
  grace_until timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz not null default now()
);
create index api_keys_tenant on api_keys (tenant_id, seq desc);
-- Records of revoked and expired keys stay; only the others count.
create index api_keys_usable on api_keys (tenant_id, expires_at) where revoked_at is null;

-- When keys were last used. A table of its own, because it is written often, while every call reads the key's row.
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
  -- Incremented by every change that must invalidate workers' cached copies.
  version integer not null default 1,
  auth_failures integer not null default 0,
  verify_requested_at timestamptz,
  -- The last check of the current settings and secret; cleared when either changes.
  verification_at timestamptz,
  verification_result text check (verification_result in ('valid', 'invalid', 'unknown')),
  verification_reason text,
  -- When the current settings and secret were last known to work.
  verified_at timestamptz,
  -- When the last genuine receipt arrived, and when the last refused one and why; accurate to a minute.
  reported_at timestamptz,
  receipt_refused_at timestamptz,
  receipt_refused_reason text,
  -- When it last moved to another server, or to another account of the vendor.
  moved_at timestamptz,
  -- Version of the token in the receipt URL. The previous version is valid until `receipt_grace_until`.
  receipt_version integer not null default 1,
  receipt_grace_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- When a deleted account was found to have no live message; from then on no look for lanes reads it.
  emptied_at timestamptz
);
create index provider_accounts_lanes on provider_accounts (tenant_id) where emptied_at is null;
create index provider_accounts_to_empty on provider_accounts (id) where status = 'deleted' and emptied_at is null;
create index provider_accounts_emptied on provider_accounts (emptied_at) where emptied_at is not null;
create index provider_accounts_tenant on provider_accounts (tenant_id, seq desc);
create index provider_accounts_route on provider_accounts (tenant_id, channel, seq) where status not in ('disabled', 'deleted');
create index provider_accounts_replaced on provider_accounts (previous_until) where previous_until is not null;
create index provider_accounts_to_verify on provider_accounts (verify_requested_at) where verify_requested_at is not null;

-- How accounts are chosen for a tenant's messages of a channel (core/domain/routing/route.ts), if the tenant has set a route. A change
-- inserts a row with the next version, so that past decisions can be recomputed. `steps`: [{accountId, weight}].
create table routes (
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null check (channel in ('sms', 'email', 'push', 'whatsapp')),
  version integer not null check (version > 0),
  strategy text not null check (strategy in ('priority', 'weighted')),
  steps json not null,
  -- Failure classes that permit failover.
  failover_on text[] not null,
  -- How long a message waits for an account that cannot be called before it moves to the next one; null: no limit.
  max_wait_ms integer check (max_wait_ms between 0 and 86400000),
  -- How long a sent message waits for its receipt before it is sent through the next account as well; null: no failover.
  receipt_timeout_ms integer check (receipt_timeout_ms between 10000 and 86400000),
  created_at timestamptz not null default now(),
  -- When the next version came into force; null for the version in force.
  replaced_at timestamptz,
  primary key (tenant_id, channel, version)
);
create unique index routes_in_force on routes (tenant_id, channel) where replaced_at is null;
create index routes_replaced on routes (replaced_at) where replaced_at is not null;

create table audit_log (
  seq bigint generated always as identity primary key,
  id uuid not null default gen_random_uuid(),
  -- The foreign key makes every insert lock the tenant's row, so that the end of a purge waits for all changes by people.
  tenant_id uuid references tenants on delete cascade,
  actor text not null,
  -- Name and address at the time, if the tenant may know them; ids alone are hard to recognize.
  actor_name text,
  actor_email text,
  action text not null,
  target text not null,
  target_name text,
  -- [{field, from, to}], without values if these are secret; null if the action says everything.
  changes jsonb,
  ip text,
  request_id text,
  app_name text,
  details jsonb not null default '{}',
  -- The time of the statement, not of the transaction's start: changes of one tenant wait for each other, and this keeps their
  -- order.
  at timestamptz not null default clock_timestamp()
);
create index audit_log_tenant on audit_log (tenant_id, at desc, seq desc);

-- Messages -----------------------------------------------------------------------------------------------------------
-- A message's place is (seq, purge_on): a number that the api reserves before acceptance, and the Monday on which retention ends
-- and the partition is dropped. All keys are places and so ascend; with random ids every inserted row of a large table would
-- dirty a page of its own. The public id hides the place (core/domain/storage/message-id.ts).

-- Numbers are reserved 1,024 at a time: each value of the sequence is a block.
create sequence message_blocks;

-- The key that encrypts places in ids. A reader of this key can learn how many messages there are, and nothing else.
create table message_id_key (
  key bytea not null check (length(key) = 16),
  one boolean primary key default true check (one)
);
insert into message_id_key (key) values (uuid_send(gen_random_uuid()));

-- What the peppers of the first processes derived: with another pepper no stored hash would be found.
create table pepper_fingerprints (
  name text primary key check (name in ('key', 'receipt')),
  fingerprint bytea not null check (length(fingerprint) = 16)
);

create type message_category as enum ('transactional', 'otp', 'marketing');
create type delivery_guarantee as enum ('at_least_once', 'at_most_once');
create type content_retention as enum ('retain', 'discard');

-- Insert-only, with two exceptions: `content` is erased if the sender asked for that or an admin erases it, and `scheduled_at` is
-- updated while the message is scheduled.
create table messages (
  seq bigint not null,
  enqueued_at timestamptz not null,
  purge_on date not null,
  category message_category not null,
  delivery_guarantee delivery_guarantee not null,
  content_retention content_retention not null,
  priority smallint not null,
  segments smallint,
  test boolean not null,
  id uuid not null,
  tenant_id uuid not null,
  api_key_id uuid,
  pinned_account_id uuid,
  channel text not null,
  recipient text not null,
  -- The recipient in its normal form, if that differs.
  address text,
  sender text,
  -- `json`, not `jsonb`, for what only its sender and its readers interpret: it is shorter, costs less to store, and the caller
  -- gets it back in its own order.
  content json,
  external_id text,
  encoding text,
  metadata json,
  -- An array of strings.
  tags json,
  traceparent text,
  -- Id of the request that was answered with the 202, so that the logs of all processes can name it.
  request_id text,
  -- Id of the batch request that contained the message; null if it was sent alone.
  batch_id uuid,
  -- Version of the route that chose its account; null if the sender named the account, or no route was set.
  route_version integer,
  -- Accounts of the route that came first and could not be used; null if there are none.
  route_skipped uuid[],
  -- The message that this one repeats.
  parent_id uuid,
  -- The instant that the sender named, as last set, if it was in the future; for a test message by the tenant's test clock, while
  -- its live row has it by the server's clock.
  scheduled_at timestamptz,
  primary key (seq, purge_on)
) partition by range (purge_on);
-- Ascending, though lists are read from their newest end: new entries then extend the last page of a tenant instead of halving its
-- first.
create index messages_list on messages (tenant_id, enqueued_at, seq);
create index messages_external on messages (tenant_id, external_id, enqueued_at, seq)
  where external_id is not null;
create index messages_batch on messages (tenant_id, batch_id, enqueued_at, seq) where batch_id is not null;
-- A test key lists these alone, however many other messages there are.
create index messages_test on messages (tenant_id, enqueued_at, seq) where test;

-- Starts of workers that have claimed messages; attempts name a start by its number.
create table workers (
  id integer generated always as identity primary key,
  -- The name that the process uses for this start in its log.
  name text not null unique,
  first_claim_at timestamptz not null default now()
);

-- Messages for which a provider may still be called: scheduled, queued, deferred, held, sending. One narrow row each, from
-- acceptance to the end of the last call; waiting, claims and retries happen in this table only. `due_at` is when the sweep
-- should look at the message; it covers lost wake-ups, retry timers and leases. A claim does not change it, so that its update
-- touches no index and stays on its page (HOT).
create table live_messages (
  seq bigint primary key,
  due_at timestamptz not null,
  expires_at timestamptz not null,
  -- The last change other than the start of an attempt.
  updated_at timestamptz not null,
  purge_on date not null,
  -- Bytes of the content that count toward the limit of a claim; null for a small content, as nearly all are.
  content_bytes integer,
  -- 0 to 2, most urgent first; plus 3 while the message is scheduled, so that searches for sendable messages do not scan past it
  -- in `live_messages_due`, however many messages become due at one instant.
  priority smallint not null,
  segments smallint,
  -- For a message that was scheduled: the retention of the plan under which it was accepted, which chose its place.
  retention_days smallint,
  retries smallint not null default 0,
  ambiguous smallint not null default 0,
  -- The start of the first ambiguous attempt.
  ambiguous_since timestamptz,
  provider_waits smallint not null default 0,
  -- How often it was moved to another account while it waited.
  reassigned smallint not null default 0,
  duplicate_risk boolean not null default false,
  test boolean not null,
  -- Whether the sender named the account.
  pinned boolean not null,
  -- Whether it has the category that `suppressions` can block separately.
  marketing boolean not null default false,
  tenant_id uuid not null,
  -- The account that is to send it; the nil uuid for a simulator.
  account_id uuid not null,
  channel text not null,
  -- The recipient's key in `suppressions`.
  address_key bytea,
  reason text,
  failure jsonb,
  held_at timestamptz,
  held_from text,
  -- When it was last released from `held`: no worker could have sent it before.
  released_at timestamptz,
  -- For a message that was sent and goes on to another account because no receipt came: the attempt that its provider accepted,
  -- and the account. The message never ends in a state in which receipts would not count, but returns to `sent`.
  sent_attempt integer,
  sent_account_id uuid,
  next_attempt_at timestamptz,
  -- Columns that a claim changes come last, because an update logs a row from its first changed byte on. The latest attempt is
  -- committed before its provider is called; when it ends, it is also stored in `attempt_log` or in the message's result.
  started_at timestamptz,
  lease_until timestamptz,
  attempt integer not null default 0,
  -- The number of the worker that began the attempt.
  worker integer,
  status text not null,
  provider text
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index live_messages_due on live_messages (tenant_id, account_id, priority, due_at);

-- Recipients that a tenant's messages must not be sent to. `address_key` is a keyed hash of tenant, channel and normalized
-- address (core/domain/recipient/address-key.ts); entries are found by it whether or not the address is stored. A recipient has one entry
-- per reason; adding another one replaces it.
create table suppressions (
  seq bigint generated always as identity primary key,
  id uuid not null default gen_random_uuid(),
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null check (channel in ('sms', 'email', 'push', 'whatsapp')),
  address_key bytea not null check (length(address_key) = 16),
  -- In its normal form; null if the tenant keeps hashes only.
  address text,
  reason text not null check (reason in ('hard_bounce', 'complaint', 'unsubscribe', 'opt_out', 'manual')),
  -- `marketing`: blocks only messages of that category.
  scope text not null check (scope in ('all', 'marketing')),
  source text not null check (source in ('api', 'import', 'receipt', 'refusal', 'recipient')),
  -- The message that caused the entry; it may have been purged.
  message_id uuid,
  -- From then on the entry has no effect.
  expires_at timestamptz,
  created_at timestamptz not null default clock_timestamp()
);
-- Includes every column that a claim needs. A key belongs to one tenant and channel. Queries compare the tenant with `is not
-- distinct from`, which no index supports: with few rows the planner could otherwise read all of the tenant's entries.
create unique index suppressions_of on suppressions (address_key, reason) include (tenant_id, scope, expires_at);
create unique index suppressions_id on suppressions (id);
create index suppressions_list on suppressions (tenant_id, seq desc);
create index suppressions_over on suppressions (expires_at) where expires_at is not null;

-- The entries in force.
create view suppressions_now with (security_invoker) as
  select s.tenant_id, s.address_key, s.reason, s.scope from suppressions s
  where coalesce(s.expires_at, 'infinity') > clock_timestamp();

-- Messages for which no provider will be called any more, with their outcome. Only receipts update a row; the columns that they
-- change come last, because an update logs a row from its first changed byte on.
create table message_results (
  seq bigint not null,
  expires_at timestamptz not null,
  -- The accepted attempt has no row of its own, but these columns; null if none was accepted.
  event_seq bigint,
  started_at timestamptz,
  sent_at timestamptz,
  purge_on date not null,
  attempt integer not null,
  worker integer,
  http_status smallint,
  -- How often it was moved to another account while it waited; null for never.
  reassigned smallint,
  duplicate_risk boolean not null,
  -- Whether receipts may name the message by the provider's id alone.
  found_by_id boolean,
  tenant_id uuid not null,
  account_id uuid,
  provider text,
  provider_message_id text,
  -- The account's own sender, if the provider accepted a message that named none.
  sent_from text,
  -- The attempt that the provider accepted, if a later one was not: then the log has it too, and the log's copy is authoritative.
  sent_attempt integer,
  updated_at timestamptz not null,
  completed_at timestamptz,
  delivered_at timestamptz,
  final boolean not null,
  -- Further facts from receipts. `partial`: some segments may have arrived. `late_bounce`: a bounce came after the delivery.
  -- `segment_states`: states by copy and segment (core/domain/receipts/reported-copies.ts), if `status` does not imply them. `engagement`:
  -- when the message was first opened and so on, in milliseconds since the epoch.
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

-- The state of a message, in whichever table it is. Results come first, because nearly all messages have ended and a plan reads
-- the parts in this order.
create view message_states with (security_invoker) as
  select seq, purge_on, tenant_id, status, reason, attempt, duplicate_risk, account_id, provider, provider_message_id,
    sent_from, null::timestamptz as next_attempt_at, failure, final, partial, late_bounce, engagement, expires_at, sent_at,
    delivered_at, completed_at, updated_at, coalesce(reassigned, 0::smallint) as reassigned, sent_attempt
  from message_results
  union all
  -- `reason` and `next_attempt_at` are not shown while a message is held; they reappear with the state that it was held from. A
  -- due message of a slowed channel waits for the brake, whatever delayed it before.
  select seq, purge_on, tenant_id, status,
    case when not test and (status = 'held'
        or status in ('queued', 'deferred') and coalesce(next_attempt_at, '-infinity') <= clock_timestamp()) and exists (
        select from brakes b where b.tenant_id = live_messages.tenant_id and b.channel = live_messages.channel
          and b.level = case status when 'held' then 'held' else 'slowed' end) then 'abuse_brake'
      when status <> 'held' then reason end, attempt, duplicate_risk,
    case when attempt > 0 and not test then account_id end, provider, null, null,
    case when status <> 'held' then next_attempt_at end, failure, false, false,
    false, null, expires_at, null, null, null, case when status = 'sending' then started_at else updated_at end, reassigned, null
  from live_messages;

-- The purge days of which upkeep has ended messages that still waited, and when it last did (`end_outlived`).
create table outlived_days (
  purge_on date primary key,
  ended_at timestamptz not null
);

-- Sent messages whose provider will report, until it has reported or the wait ends.
create table awaited_receipts (
  seq bigint primary key,
  purge_on date not null,
  tenant_id uuid not null,
  due_at timestamptz not null,
  test boolean not null default false
);
create index awaited_receipts_due on awaited_receipts (due_at);
-- Advancing a test clock moves only these waits.
create index awaited_receipts_test on awaited_receipts (tenant_id) where test;

-- Messages whose outcome is looked up at their provider: silent for an hour, or sent by a call that got no answer.
create table lookups (
  seq bigint primary key,
  purge_on date not null,
  tenant_id uuid not null,
  account_id uuid not null,
  -- When the provider accepted the message, or may have.
  since timestamptz not null,
  -- 'infinity': no further lookup, only waits until `until_at`.
  ask_at timestamptz not null,
  -- When the wait for a receipt ends.
  until_at timestamptz not null,
  asks smallint not null default 0
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index lookups_ask on lookups (account_id, ask_at);
create index lookups_until on lookups (until_at);

-- Accounts with lookups, and when a worker may next use each of them.
create table lookup_turns (
  account_id uuid primary key,
  provider text not null,
  -- When a lookup is due and the account may be asked.
  next_at timestamptz not null,
  -- No lookup before this time: a worker's lease, the account's pace, or its pause after failures.
  open_at timestamptz not null,
  -- Number of consecutive failures of the account to answer.
  failures smallint not null default 0,
  -- Number of the turn, so that a worker whose lease has ended changes nothing.
  turn integer not null default 0
) with (fillfactor = 50);
create index lookup_turns_next on lookup_turns (next_at) where failures = 0;
create index lookup_turns_failing on lookup_turns (next_at) where failures > 0;

-- Sent messages that go on to another account if their provider has reported nothing by `due_at`; only of routes with a receipt
-- timeout. Receipts do not touch the row; it is deleted when due.
create table failover_waits (
  seq bigint primary key,
  purge_on date not null,
  tenant_id uuid not null,
  due_at timestamptz not null
);
create index failover_waits_turns on failover_waits (tenant_id, due_at);

-- Attempts that have ended, each with the resulting state of its message: attempts that no provider accepted, and accepted
-- attempts of messages that went on to another account. Insert-only.
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
  -- The account that was to send the message next, and why that one (core/domain/routing/failover.ts); null for none.
  rerouted jsonb,
  -- For an accepted attempt, copied from its result: the keys by which receipts find it, and until when they were awaited.
  provider_message_id text,
  found_by_id boolean,
  sent_from text,
  await_until timestamptz,
  primary key (message_seq, purge_on, number)
) partition by range (purge_on);
create index attempt_log_found_by_id on attempt_log (provider_message_id) where found_by_id;

-- Events of messages other than attempts: receipts, expiry, holds. Append-only.
create table event_log (
  message_seq bigint not null,
  purge_on date not null,
  event_seq bigint not null,
  tenant_id uuid not null,
  type text not null,
  source text not null,
  applied boolean not null default true,
  details jsonb,
  -- For a receipt: a key that is the same for all repetitions of it.
  report_key text,
  at timestamptz not null,
  primary key (message_seq, purge_on, event_seq)
) partition by range (purge_on);
create unique index event_log_reports on event_log (message_seq, purge_on, report_key) where report_key is not null;

-- One sequence orders both logs and the accepted attempts.
create sequence event_seq;
alter table attempt_log alter event_seq set default nextval('event_seq');
alter table event_log alter event_seq set default nextval('event_seq');

-- All attempts, including the one under way and the accepted one. `workers` has the names of their workers.
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

-- Everything that happened to a message after its acceptance. An attempt that was never begun is not an event. Events store no
-- id: it is computed from the message's place and the event's number (`core/domain/webhooks/event-id.ts`).
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

-- Contents too large to be stored with their messages, whose own `content` then only has the size. A content is written before
-- its message is accepted, is read by the worker that sends it, and is deleted together with the message's content.
create table message_contents (
  message_seq bigint not null,
  purge_on date not null,
  tenant_id uuid not null,
  content text not null,
  primary key (message_seq, purge_on)
) partition by range (purge_on);
-- Nearly all of a large content is attachments in base64, which compression hardly shrinks.
alter table message_contents alter content set storage external;

-- Contents for which it has not been checked yet whether their messages were accepted.
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

-- Receipts that are parsed and not yet applied.
create table receipts (
  id uuid primary key default gen_random_uuid(),
  tenant_id uuid not null,
  -- The account that the report came for; null for a simulator, and for an answer that arrived late.
  account_id uuid,
  -- The place of the message, and the id that its row must have; null if the provider only names its own id.
  message_seq bigint,
  purge_on date,
  message_id uuid,
  provider_message_id text,
  attempt integer,
  -- For an answer that arrived late: how long its receipt is awaited; null if none is.
  await_ms bigint,
  receipt text check (receipt in ('sent', 'delivered', 'undelivered')),
  temporary boolean not null default false,
  failure jsonb,
  segment text,
  engagement text,
  provider_status text,
  -- Whether the report is authenticated: its signature is valid, or it answers a lookup. Null if it does not come from a
  -- provider.
  verified boolean,
  -- Whether it is the answer to a lookup, and not a report of the provider's own.
  asked boolean not null default false,
  -- Trace context of the span in which the vendor's call was received.
  traceparent text,
  -- When the reported event happened, according to the provider.
  happened_at timestamptz,
  report_key text,
  received_at timestamptz not null default clock_timestamp(),
  apply_at timestamptz not null,
  -- Whether it is read at `apply_at`: receipts of simulators, and receipts that were read before and have no message yet, for
  -- example because they arrived before their call was recorded. Other receipts are read as soon as their account has its turn.
  waiting boolean not null default false
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- All simulators of a tenant share one turn, like an account.
create index receipts_turns on receipts (coalesce(account_id, tenant_id), apply_at) where not waiting;
create index receipts_waiting on receipts (apply_at) where waiting;
create index receipts_waiting_turns on receipts (tenant_id, apply_at) where waiting;
-- For the limit on waiting receipts per account, and for the reports that wait on a message.
create index receipts_waiting_of on receipts (account_id, provider_message_id) where waiting and account_id is not null;
create index receipts_waiting_seq on receipts (message_seq) where waiting and message_seq is not null;

-- Vendors' calls to receipt URLs, as received, until a worker has parsed them.
create table receipt_calls (
  id bigint generated always as identity primary key,
  tenant_id uuid not null,
  account_id uuid not null,
  method text not null check (method in ('GET', 'POST')),
  -- Version of the token in the URL; the token itself is not stored.
  receipt_version integer not null,
  -- The part of the URL after the token, byte for byte, with its question mark; empty if there was none.
  query text not null,
  -- The headers that the provider's definition names, with names in lower case.
  headers jsonb not null,
  body bytea not null,
  -- Trace context of the span in which the api received the call.
  traceparent text,
  received_at timestamptz not null,
  -- When to parse the call; until `leased_until` it belongs to the worker that claimed it. The lease is in no index, so that a
  -- claim's update stays on its page (HOT).
  due_at timestamptz not null,
  leased_until timestamptz not null default '-infinity',
  -- How often it was read and left to be read again. A call whose lease ended was not read.
  tries smallint not null default 0,
  -- Whether the last of these found settings of the account that cannot be used.
  misconfigured boolean not null default false,
  -- Whether one of these refused its signature. Such calls are kept for a day, some of each account: the account's secret or
  -- `PUBLIC_BASE_URL` may be wrong, and is then mended.
  refused boolean not null default false
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- Read once and deleted: compression would cost more than it saves.
alter table receipt_calls alter body set storage external;
create index receipt_calls_due on receipt_calls (account_id, due_at);

-- Events out -----------------------------------------------------------------------------------------------------------
-- A tenant's feed is its events in commit order, numbered without gaps. A transaction that stores events names them in `changes`
-- and waits for no other transaction; a worker numbers them afterwards (`number_changes`).

-- Events of a tenant and of its accounts. Append-only, kept as long as a message accepted at that time.
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

-- Names the events that a transaction has stored, by the keys of their rows. Each function call that stores events inserts one
-- row once it holds all its locks, so that `id` orders transactions that waited for each other. No row is read twice and deleted
-- rows are not scanned: `feed_passes` has where to start.
create table changes (
  xid xid8 not null default pg_current_xact_id(),
  id bigint not null generated always as identity,
  at timestamptz not null default clock_timestamp(),
  -- Tenants, and how many of the events, in their order, belong to each.
  tenant_ids uuid[] not null,
  counts integer[] not null,
  -- Message 0: the event is in `tenant_events`.
  seqs bigint[] not null,
  purge_ons date[] not null,
  -- An event's number, or an attempt's number negated; null for acceptances.
  numbers bigint[]
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index changes_xid on changes (xid);
-- Without it, a publication of all tables would refuse to delete rows. It costs nothing without logical replication.
alter table changes replica identity full;

-- Progress of the numbering; only the last row counts. Rows are inserted and never updated, because versions of one row would
-- pile up under an old snapshot. Every change visible in `done` is numbered; if there is a `target`, its changes are numbered up
-- to `after_id`.
create table feed_passes (
  id bigint primary key generated always as identity,
  at timestamptz not null default clock_timestamp(),
  done pg_snapshot not null,
  target pg_snapshot,
  after_id bigint not null default 0,
  -- The highest numbered `id`, for a database that is restored into another cluster.
  last_id bigint not null default 0,
  -- Changes of older transactions have been deleted.
  cleared xid8 not null default '0',
  -- Tenants with webhook endpoints that got events in this pass.
  endpoint_tenants uuid[] not null default '{}'
);
insert into feed_passes (done) values (pg_current_snapshot());

-- Runs of a tenant's events that are in one partition, by the same keys as in `changes`. Append-only.
create table feed (
  first_seq bigint not null,
  last_seq bigint not null,
  -- Never earlier than that of a lower number.
  numbered_at timestamptz not null,
  tenant_id uuid not null,
  purge_on date not null,
  seqs bigint[] not null,
  -- 0 for the acceptance.
  numbers bigint[] not null,
  primary key (tenant_id, last_seq, purge_on)
) partition by range (purge_on);
create index feed_since on feed (tenant_id, numbered_at, last_seq);

-- The last number of each tenant's feed, and when it was given; kept when the events are purged, so that numbers never repeat.
-- Finding it in `feed` would take a look-up in every week's partition. A row is replaced and not updated, so that the newest is
-- found first in the index, before all versions that an old snapshot still sees.
create table feed_heads (
  tenant_id uuid not null,
  last_seq bigint not null,
  numbered_at timestamptz not null,
  primary key (tenant_id, last_seq)
);

-- Where tenants receive their events.
create table webhook_endpoints (
  id uuid primary key default gen_random_uuid(),
  -- Number within the tenant, deleted endpoints included: 1, 2, and so on (`number_endpoint`). A delivery's id encrypts it
  -- together with the event's number in the endpoint's feed.
  number bigint not null check (number between 1 and 4194303),
  tenant_id uuid not null references tenants (id),
  url text not null,
  description text,
  -- Event types, or prefixes of several: `message.*`.
  event_types text[] not null,
  final_only boolean not null default false,
  -- Only events of messages with these; empty: of all messages. Events without a message are not filtered by them.
  channels text[] not null default '{}',
  tags text[] not null default '{}',
  headers jsonb not null default '{}',
  -- Whether events of one message are delivered one after the other.
  ordered boolean not null default false,
  mask_recipients boolean not null default false,
  -- Calls per second; null: no limit.
  rate_limit_per_second integer,
  -- `v1`, `v1a`.
  signatures text[] not null default '{v1}',
  status text not null default 'active' check (status in ('active', 'failing', 'paused', 'disabled')),
  -- For `disabled`: `gone` (it answered 410), `failing` (it failed for five days).
  status_reason text,
  -- Number of failed calls since the last success, and the time of the first of them or, once `failing`, of the one that made
  -- it so.
  failures integer not null default 0,
  failing_since timestamptz,
  -- No call begins before this time: the endpoint fails, or asked for a pause.
  call_at timestamptz not null default '-infinity',
  -- Ciphertexts under the tenant's key. The previous secret signs beside the current one until it is deleted.
  secret text not null,
  secret_version integer not null default 1,
  previous_secret text,
  previous_until timestamptz,
  -- A client certificate and its key, as JSON; null if none is used.
  client_certificate text,
  has_client_certificate boolean not null generated always as (client_certificate is not null) stored,
  -- Incremented by every change of a setting or a secret.
  version integer not null default 1,
  -- Where the tenant's feed ended when the endpoint was created: it gets the events after that.
  matched_to bigint not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- When it was deleted; it has no ciphertexts from then on. The row stays as long as any row belongs to it.
  deleted_at timestamptz,
  -- For a deleted endpoint: when to check whether rows are left (`purge_deleted_endpoints`).
  look_on date not null default '-infinity'
-- Room on the page for the row versions of an endpoint that alternates between failure and success (HOT).
) with (fillfactor = 70);
create unique index webhook_endpoints_number on webhook_endpoints (tenant_id, number);
create index webhook_endpoints_tenant on webhook_endpoints (tenant_id, created_at, id) where deleted_at is null;
create index webhook_endpoints_deleted on webhook_endpoints (look_on) where deleted_at is not null;
create index webhook_endpoints_live on webhook_endpoints (id) where deleted_at is null;
create index webhook_endpoints_status on webhook_endpoints (status) where deleted_at is null;
create index webhook_endpoints_replaced on webhook_endpoints (previous_until) where previous_until is not null;

-- A tenant's Ed25519 signing keys (`v1a`). One of them signs. A new key is published before it signs, so that receivers that
-- cache the keys for a while accept it; former keys are published until their signatures have been verified.
create table webhook_keys (
  id uuid primary key default gen_random_uuid(),
  tenant_id uuid not null references tenants (id),
  -- 32 bytes, base64url.
  public_key text not null,
  -- The private key (PKCS #8), encrypted under the tenant's key; null once another key has replaced it, or soon after.
  ciphertext text,
  signs_from timestamptz not null default now(),
  -- Null for the newest.
  shown_until timestamptz
);
create index webhook_keys_tenant on webhook_keys (tenant_id, signs_from);
create index webhook_keys_replaced on webhook_keys (shown_until) where shown_until is not null;

-- An endpoint's feed: the tenant's events that match its filters, as numbered runs of keys like those in `feed`. Append-only.
-- `feed_seq`: the tenant's feed is matched up to there. `matched_at` is never earlier than that of a lower number.
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
  -- A single event that did not match the endpoint's filters and was sent at a person's request.
  replayed boolean not null default false,
  primary key (endpoint_id, last_seq, purge_on)
) partition by range (purge_on);
create index endpoint_feed_since on endpoint_feed (endpoint_id, matched_at, last_seq);
create index endpoint_feed_replayed on endpoint_feed (endpoint_id, (seqs[1])) where replayed;

-- How far the tenant's feed is matched for an endpoint, and the last number of the endpoint's own feed; kept when the events are
-- purged, so that numbers never repeat. Finding them in `endpoint_feed` would take a look-up in every week's partition. A row is
-- replaced and not updated, like those of `feed_heads`.
create table endpoint_heads (
  endpoint_id uuid not null,
  feed_seq bigint not null,
  last_seq bigint not null,
  -- When the last number was given; null before the first one.
  matched_at timestamptz,
  tenant_id uuid not null,
  primary key (endpoint_id, feed_seq, last_seq)
);

-- The same for every endpoint, including those for which nothing has been matched yet.
create view endpoint_reach with (security_invoker) as
  select w.id, coalesce(h.feed_seq, w.matched_to) as matched_to, coalesce(h.last_seq, 0) as last_seq, h.matched_at
  from webhook_endpoints w
  left join lateral (
    select x.feed_seq, x.last_seq, x.matched_at from endpoint_heads x where x.endpoint_id = w.id
    order by x.feed_seq desc, x.last_seq desc limit 1
  ) h on true;

-- An event as `read_events` returns it, and how far the call has read.
create type feed_event as (
  scanned integer, end_seq bigint, seq bigint, message_seq bigint, number bigint, purge_on date, event_seq bigint,
  type text, at timestamptz, details jsonb, sequence bigint, message_id uuid, test boolean, external_id text, channel text,
  recipient text, category message_category, metadata json, tags json, is_final boolean, attempt integer, account_id uuid, provider text);

-- Deliveries still to be made: a stretch of a run for which no call was made, or a single event whose call has failed. A row is
-- deleted when each of its events has succeeded, waits in a row of its own, or is given up.
create table due_deliveries (
  id bigint primary key generated always as identity,
  endpoint_id uuid not null,
  tenant_id uuid not null,
  first_seq bigint not null,
  last_seq bigint not null,
  purge_on date not null,
  -- For a single event: its message. Later events of that message wait for it while the endpoint is ordered.
  message_seq bigint,
  -- Number of calls made for it.
  attempts smallint not null default 0,
  -- Requested by a person and outside the schedule: one call, without a retry after a failure.
  manual boolean not null default false,
  -- When it can be claimed; for a claimed row the end of the lease; infinity while it waits for an earlier event.
  due_at timestamptz not null,
  -- Identifies the claim that holds the row; a completion of another claim changes nothing.
  claim bigint
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index due_deliveries_of on due_deliveries (endpoint_id, due_at);
-- For looks at what became due since the last one; rows that wait for an earlier event are not found by time.
create index due_deliveries_at on due_deliveries (due_at, endpoint_id) where due_at < 'infinity';
create index due_deliveries_seq on due_deliveries (endpoint_id, first_seq);
create index due_deliveries_purge on due_deliveries (purge_on);
create index due_deliveries_message on due_deliveries (endpoint_id, message_seq) where message_seq is not null;
create sequence delivery_claim;

-- Finished calls. Append-only.
create table delivery_attempts (
  endpoint_id uuid not null,
  seq bigint not null,
  -- From 1, per event and endpoint.
  attempt smallint not null,
  purge_on date not null,
  tenant_id uuid not null,
  at timestamptz not null,
  duration_ms integer not null,
  -- Status code of the answer; null if none arrived.
  status smallint,
  -- Why no answer arrived: `timeout`, `tls`, `egress_blocked` and so on.
  error text,
  -- The first KiB of the answer's body.
  answer text,
  succeeded boolean not null,
  primary key (endpoint_id, seq, attempt, purge_on)
) partition by range (purge_on);

-- Test calls of an endpoint that a person asked for; a worker makes each at once, and the row is deleted within minutes.
create table endpoint_tests (
  id uuid primary key default gen_random_uuid(),
  endpoint_id uuid not null,
  tenant_id uuid not null,
  asked_at timestamptz not null default clock_timestamp(),
  -- When another worker may claim it.
  due_at timestamptz not null default '-infinity',
  -- The exchange, once it is over.
  result jsonb
);
create index endpoint_tests_age on endpoint_tests (asked_at);

create table tenant_events_default partition of tenant_events default;
create table feed_default partition of feed default with (toast_tuple_target = 8160);
create table endpoint_feed_default partition of endpoint_feed default with (toast_tuple_target = 8160);
create table delivery_attempts_default partition of delivery_attempts default;

-- The facts that a worker gets about a message under way: `send` for a message to call the provider for, `lost` for an attempt
-- whose lease has ended, without the content. `discard`: whether the content is to be deleted as soon as no provider needs it.
create view claimed_message with (security_invoker) as
  select case when l.lease_until <= clock_timestamp() then 'lost' else 'send' end as action, l.seq, l.purge_on, m.id, l.tenant_id, l.attempt, l.retries, l.ambiguous, l.provider_waits,
    l.duplicate_risk, l.channel, coalesce(m.address, m.recipient) as address, m.sender, case when l.lease_until > clock_timestamp() then m.content end as content,
    l.content_bytes, l.test, l.segments, m.delivery_guarantee, least(greatest(m.enqueued_at, m.scheduled_at), clock_timestamp()) as waits_since,
    l.expires_at, m.traceparent, m.request_id, case when not l.test then l.account_id end as account_id, l.provider,
    -- A lost attempt may be the first ambiguous one.
    coalesce(l.ambiguous_since, case when l.lease_until <= clock_timestamp() then l.started_at end) as ambiguous_since,
    p.status as account_status, p.version as account_version, coalesce(p.auth_failures > 0, false) as is_account_refused,
    -- The change may have been committed five seconds after its time, so long as a transaction may take, and calls went to the
    -- former server until then.
    coalesce(p.moved_at + interval '5 seconds' > coalesce(l.ambiguous_since, l.started_at), false) as is_account_moved,
    -- A worker with waiting messages probes the account each minute, and stores that: the one that stored this health has ended.
    coalesce(p.health <> 'healthy' and p.updated_at < clock_timestamp() - interval '5 minutes', false) as is_health_stale,
    -- For a slowed channel at most what it may send per second: its messages too are claimed from their lane only.
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

-- The facts that decide about a message that was not claimed. `account_status` is null if the account is missing or deleted.
create view waiting_message with (security_invoker) as
  select l.seq, l.purge_on, m.id, l.tenant_id, t.status as tenant_status, l.status, l.attempt, l.ambiguous, l.account_id,
    p.status as account_status, p.provider,
    least(p.rate_limit_per_second, case when b.level = 'slowed' then greatest(1, ceil(1000 / b.gap_ms))::integer end)
      as rate_limit_per_second,
    b.level as brake, l.pinned, l.channel, l.test, l.lease_until,
    l.next_attempt_at, l.expires_at, l.due_at, least(greatest(m.enqueued_at, m.scheduled_at), clock_timestamp()) as waits_since, m.request_id,
    -- By this server's clock; no worker's clock decides.
    coalesce(l.next_attempt_at, '-infinity') <= clock_timestamp() as is_due,
    l.expires_at <= clock_timestamp() as is_expired,
    l.status = 'sending' and l.lease_until <= clock_timestamp() as is_lease_over,
    -- How long it could have been claimed: since it became due or was moved to its account.
    case when l.due_at < clock_timestamp() then floor(extract(epoch from clock_timestamp() - l.due_at) * 1000)::bigint else 0 end as waited_ms,
    l.reassigned, l.sent_attempt is not null as is_sent,
    -- Accounts that it has left because their rate was used up.
    case when l.reassigned > 0 then array(select (e.details ->> 'from')::uuid from event_log e
      where e.message_seq = l.seq and e.purge_on = l.purge_on and e.type = 'message.failed_over'
        and e.details ->> 'why' = 'rate_used_up' order by e.event_seq)
      else '{}' end as left_for_rate,
    -- Why its recipient must not get it; null if no entry blocks it.
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
  -- `= any (array[…])`, as for `tenants`: for an equality of columns a planner that knows of hardly any messages may read a whole
  -- index in the order of that column, instead of looking the messages up.
  left join brakes b on b.tenant_id = any (array[l.tenant_id]) and b.channel = l.channel and b.level is not null and not l.test;

-- Idempotency: one partition per generation of seven days; a key is looked up in its own generation, the previous one and later
-- ones. `response` is the answer byte for byte, because a replay repeats it, so it contains the message's recipient; `json`,
-- because `jsonb` would reorder the caller's own keys. It is deleted within fourteen days, and not after the message with the
-- same recipient if that is kept for eight days or longer. A tenant with a shorter retention has its answers for longer than its
-- messages, because a key promises its answer for seven days.
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
-- An owner's counts are in its row with the highest `slot`, which is found first from that end of the key. After a few dozen
-- `uses` (`uses_per_slot`) the row moves to the next slot: a search then does not scan row versions that a snapshot keeps,
-- such as that of a backup (ADR 25). A transaction locks the owner's row in `counter_locks` before it counts.

-- Rows that are locked and never changed, so that a transaction that waited for a lock finds the same row version.
create table counter_locks (
  owner uuid not null,
  -- `accepted` and `finished` of a tenant, `calls` of a subject, `tokens` of an account.
  counter text not null,
  primary key (owner, counter)
);

-- The calls of one subject (api key, tenant or user) in the last 61 seconds up to `second`, the oldest first. The values that
-- change within a second are adjacent at the end, because an update only logs the changed part of a row.
create table rate_windows (
  subject uuid not null,
  slot bigint not null default 1,
  second bigint not null default 0,
  counts integer[] not null default array_fill(0, array[61]),
  -- The sum of `counts`, stored so that it need not be computed.
  total integer not null default 0,
  uses smallint not null default 0,
  primary key (subject, slot)
) with (fillfactor = 50);

-- `used` and `tested` count toward the daily limits of live and test messages of `day`; the other counts only grow. Written by the
-- accept path.
create table tenant_usage (
  tenant_id uuid not null,
  slot bigint not null default 1,
  day date not null default '-infinity',
  uses smallint not null default 0,
  used bigint not null default 0,
  -- The level of the daily limit that the tenant was notified of: 0, 80 or 100 per cent.
  warned smallint not null default 0,
  accepted bigint not null default 0,
  -- How many of the accepted messages were scheduled.
  scheduled bigint not null default 0,
  tested bigint not null default 0,
  primary key (tenant_id, slot)
) with (fillfactor = 50);

-- Written by workers; accepted - finished = backlog, of which scheduled - unscheduled wait for their instant. A table apart from
-- `tenant_usage`, so that neither path waits for the other's row.
create table tenant_progress (
  tenant_id uuid not null,
  slot bigint not null default 1,
  uses smallint not null default 0,
  finished bigint not null default 0,
  -- How many of the scheduled messages have become queued, or have ended before.
  unscheduled bigint not null default 0,
  primary key (tenant_id, slot)
) with (fillfactor = 50);

-- The tokens that an account or webhook endpoint with a rate limit used up within the last second: `taken[i]` of them at
-- `ticks[i]`, the oldest first. A tick is a fiftieth of a second (`ticks_per_second`), counted from 1970, so a row has at most 51.
create table account_rates (
  account_id uuid not null,
  ticks bigint[] not null,
  taken integer[] not null,
  uses smallint not null default 0,
  slot bigint not null default 1,
  primary key (account_id, slot)
) with (fillfactor = 50);

-- Usage ------------------------------------------------------------------------------------------------------------------
-- How many messages a tenant sent and how they ended, by time of acceptance. A transaction that moves messages records the move
-- in `usage_moves`; a worker adds the rows up afterwards and deletes them (`count_usage`).

-- Moves that are not counted yet, of messages in one partition. Each row is read once.
create table usage_moves (
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null,
  purge_on date not null,
  -- The states before and after: a state that is no longer live, else `in_progress`. `was` is null for an acceptance; both are
  -- null if nothing moved and the row only has `tells`.
  was text,
  became text check (became is not null or tells is not null),
  -- For the brakes of the channels (`count_finals`): the messages have become final, or a provider reported that the address does
  -- not exist, or that the recipient complained.
  tells text check (tells in ('final', 'hard_bounce', 'complaint')),
  -- A provider has just accepted the messages: the time until then is counted too.
  by_call boolean not null default false,
  seqs bigint[] not null,
  -- For each of them: the account in the state that is no longer live, and how long its receipt took.
  account_ids uuid[],
  receipt_ms bigint[],
  -- For each message of a report: when it became final. A report counts among the messages that became final with that one.
  final_at timestamptz[],
  -- Whether the calls that caused the moves speak for or against these accounts (core/domain/sending/call-end.ts), and how long each
  -- took; null if no call was made. A message that waits again after a call has a row from `in_progress` to `in_progress`.
  call_end text,
  call_ms integer[]
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index usage_moves_xid on usage_moves (xid);
-- As for `changes`.
alter table usage_moves replica identity full;

-- The last final messages of a tenant's channel, in the order in which they became final, in stretches of fifty: the last twenty
-- full stretches and the current one. With the reports that came together with a message's becoming final, so that a channel that
-- begins to bounce is braked within minutes; all reports are in `final_hours`.
create table final_stretches (
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null,
  stretch bigint not null,
  finals integer not null,
  hard_bounces integer not null,
  complaints integer not null,
  primary key (tenant_id, channel, stretch)
) with (fillfactor = 70);

-- How many messages became final in each hour of the last eight days, and before that in as many hours as make 1,000 messages: a
-- channel's throughput before it is slowed, and the messages that reports are compared with.
create table final_hours (
  tenant_id uuid not null references tenants on delete cascade,
  channel text not null,
  hour timestamptz not null,
  finals integer not null,
  -- Those that became final since the channel's brake was last lifted, and the reports about them.
  rated integer not null,
  hard_bounces integer not null,
  complaints integer not null,
  primary key (tenant_id, channel, hour)
) with (fillfactor = 70);

-- Progress of the counting; only the last row counts. Rows are inserted and never updated, because versions of one row would pile
-- up under an old snapshot.
create table usage_passes (
  id bigint primary key generated always as identity,
  at timestamptz not null default clock_timestamp(),
  -- Moves of older transactions are counted.
  from_xid xid8 not null,
  -- Whether the pass left no row that it could see.
  is_whole boolean not null
);
insert into usage_passes (from_xid, is_whole) values (pg_snapshot_xmin(pg_current_snapshot()), true);

-- Every message of a tenant once in each dimension (for tags once per tag), except those of test keys. `period` is the start of
-- the hour or day (UTC) of acceptance.
create table usage_counts (
  tenant_id uuid not null,
  -- `hour` and `day`: by channel and account; `key` and `tag`: by key or tag, and day.
  dimension text not null check (dimension in ('hour', 'day', 'key', 'tag')),
  period timestamptz not null,
  -- Empty for keys and tags.
  channel text not null,
  -- The id of the account or key, or the tag. Empty: there is none; for tags: all beyond the first hundred of a day.
  value text not null,
  -- `in_progress`, or a state that is no longer live.
  status text not null,
  messages bigint not null,
  segments bigint not null,
  primary key (tenant_id, dimension, period, channel, value, status)
) with (fillfactor = 70);
create index usage_counts_period on usage_counts (period);

-- Time until a provider accepted a message (`provider`), and from then until its receipt reported the outcome (`receipt`):
-- numbers of messages by duration (core/domain/tenant/time-buckets.ts).
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

-- Results of an account's calls, and what receipts reported of its messages, per five minutes in which they happened; without
-- test keys. Kept for 25 hours, so that the last 24 hours are complete.
create table account_counts (
  tenant_id uuid not null,
  account_id uuid not null,
  -- The start of the five minutes.
  period timestamptz not null,
  -- Calls, by whether they speak for or against the account.
  accepted bigint not null,
  refused bigint not null,
  failed bigint not null,
  -- Messages that a receipt reported as such; negative if messages counted earlier were later reported as the other.
  delivered bigint not null,
  undelivered bigint not null,
  -- Numbers of calls by duration (core/domain/tenant/time-buckets.ts).
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
    'feed_heads', 'usage_counts', 'usage_times', 'account_counts', 'brakes', 'final_stretches', 'final_hours', 'webhook_endpoints', 'webhook_keys', 'endpoint_feed', 'endpoint_heads', 'due_deliveries',
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
  -- Users do not belong to a tenant: a tenant sees the users who are its members.
  alter table users enable row level security;
  alter table users force row level security;
  create policy own_members on users for select
    using (exists (select from members m where m.user_id = users.id and m.tenant_id = current_tenant()));
  create policy definer on users to despatch_definer using (true) with check (true);
  foreach t in array array['counter_locks', 'rate_windows', 'account_rates', 'lookup_turns', 'gone_resources', 'message_id_key',
    'pepper_fingerprints', 'workers', 'changes', 'feed_passes', 'usage_moves', 'usage_passes', 'outlived_days'] loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('create policy definer on %I to despatch_definer using (true) with check (true)', t);
  end loop;
end $$;

-- The api reads and writes its tenant's rows; it can write a provider's ciphertext but not read one, nor a key's hash.
grant usage on schema despatch to despatch_api, despatch_worker, despatch_controller;
grant select on tenants, tenant_limits, members, users, api_key_uses, messages, live_messages, message_results, message_states,
  attempt_log, attempts, event_log, events, tenant_events, feed, feed_heads, endpoint_feed, endpoint_heads, due_deliveries, delivery_attempts,
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
  has_client_certificate, version, matched_to, created_at, updated_at, deleted_at), insert, update on webhook_endpoints to despatch_api;
grant select (id, tenant_id, public_key, signs_from, shown_until), insert, update on webhook_keys to despatch_api;
grant update (due_at) on due_deliveries to despatch_api;
grant insert, delete on endpoint_tests to despatch_api;
grant select, insert, update, delete on suppressions to despatch_api;
grant execute on function current_tenant() to despatch_api, despatch_worker, despatch_controller;
