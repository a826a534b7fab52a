-- Retention: partitions are made ahead, whole partitions are dropped. Run by one worker at a time, a partition a
-- transaction: each takes locks that all requests wait behind, gives up soon where it cannot have them, and keeps nothing
-- locked for the next.

create function partition_names() returns table (parent text, options text) language sql immutable as $$
  values ('messages', ''), ('message_states', ' with (fillfactor = 50)'), ('attempt_log', ''), ('event_log', ''),
    ('message_contents', ''), ('idempotency_keys', '')
$$;

-- Whether the partition of a week has served its time. Rows of messages lie under the Monday on which their retention is
-- over. An idempotency generation goes when its youngest key is older than seven days.
create function has_served(parent text, monday date, today date) returns boolean
language sql immutable parallel safe as $$
  select case parent when 'idempotency_keys' then monday + 14 < today else monday <= today end
$$;

-- What is to be done, the partitions to make first.
create function partition_tasks() returns table (task text, parent text, monday date)
language sql stable security definer set search_path = despatch, pg_temp as $$
  with clock as (
    select (now() at time zone 'UTC')::date as today, date_trunc('week', now() at time zone 'UTC')::date as this_week
  ), longest as (
    select coalesce(greatest(90, max((limits ->> 'retentionDays')::integer)), 90) as days from tenant_limits
  ), wanted as (
    select p.parent, this_week + week * 7 as monday
    from clock, longest, partition_names() p, generate_series(
      case p.parent when 'idempotency_keys' then -1 else 1 end,
      case p.parent when 'idempotency_keys' then 2 else days / 7 + 3 end) week
  )
  (select 'make', w.parent, w.monday from wanted w
    where to_regclass('despatch.' || w.parent || '_' || to_char(w.monday::timestamp, 'YYYYMMDD')) is null
    order by w.monday, w.parent)
  union all
  (select 'drop', t.relname::text, right(c.relname, 8)::date
    from clock, pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class t on t.oid = i.inhparent
    join pg_namespace n on n.oid = t.relnamespace and n.nspname = 'despatch'
    join partition_names() p on p.parent = t.relname
    where c.relname ~ '_\d{8}$' and has_served(t.relname, right(c.relname, 8)::date, today)
    order by c.relname)
$$;

-- Makes the weekly partition of `parent` that begins on `monday`, unless it exists. Rows that already sit in the default
-- partition for that week stay there and are deleted by `purge_rows` when their day comes.
create function make_partition(of_parent text, of_monday date) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp set lock_timeout = '1s' as $$
declare
  name text := of_parent || '_' || to_char(of_monday::timestamp, 'YYYYMMDD');
  key text := case when of_parent = 'idempotency_keys' then 'generation' else 'purge_on' end;
  storage text;
  taken boolean;
begin
  select p.options into storage from partition_tasks() t join partition_names() p on p.parent = t.parent
  where t.task = 'make' and t.parent = of_parent and t.monday = of_monday;
  if storage is null then
    return false;
  end if;
  execute format('select exists (select from %I where %I >= %L and %I < %L)', of_parent || '_default', key, of_monday,
    key, of_monday + 7) into taken;
  if taken then
    return false;
  end if;
  -- Built apart and attached: readers and writers of the parent are not stopped, but those of its default partition are.
  execute format('create table %I (like %I including defaults including generated including storage)%s', name, of_parent, storage);
  execute format('alter table %I enable row level security', name);
  execute format('alter table %I force row level security', name);
  execute format('create policy definer on %I to despatch_definer using (true) with check (true)', name);
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', of_parent, name, of_monday,
    of_monday + 7);
  return true;
end $$;

-- Drops a partition that has served its time; for any other it does nothing.
create function drop_partition(of_parent text, of_monday date) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp set lock_timeout = '1s' as $$
begin
  if not exists (select from partition_tasks() t
    where t.task = 'drop' and t.parent = of_parent and t.monday = of_monday) then
    return false;
  end if;
  execute format('drop table %I', of_parent || '_' || to_char(of_monday::timestamp, 'YYYYMMDD'));
  return true;
end $$;

-- Deletes what has served its time and lies in no partition of its own.
create function purge_rows() returns void
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  today date := (now() at time zone 'UTC')::date;
begin
  delete from messages_default where has_served('messages', purge_on, today);
  delete from message_states_default where has_served('message_states', purge_on, today);
  delete from message_contents_default where has_served('message_contents', purge_on, today);
  delete from attempt_log_default where has_served('attempt_log', purge_on, today);
  delete from event_log_default where has_served('event_log', purge_on, today);
  delete from idempotency_keys_default where has_served('idempotency_keys', generation, today);
  delete from rate_windows where second < extract(epoch from now())::bigint - 3600;
end $$;

select make_partition(parent, monday) from partition_tasks() where task = 'make';
