-- Retention: partitions are made ahead, whole partitions are dropped. Run by one worker at a time.

create function partition_names() returns table (parent text, options text) language sql immutable as $$
  values ('messages', ''), ('message_states', ' with (fillfactor = 50)'), ('attempt_log', ''), ('event_log', '')
$$;

-- Makes the weekly partition of `parent` that ends retention on `monday`, unless it exists. Rows that already sit in
-- the default partition for that week stay there and are deleted by `purge` when their day comes.
create function make_partition(parent text, options text, monday date) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp set lock_timeout = '2s' as $$
declare
  name text := parent || '_' || to_char(monday, 'YYYYMMDD');
  taken boolean;
begin
  if to_regclass('despatch.' || name) is not null then
    return false;
  end if;
  execute format('select exists (select from %I where %I >= %L and %I < %L)', parent || '_default',
    case when parent = 'idempotency_keys' then 'generation' else 'purge_on' end, monday,
    case when parent = 'idempotency_keys' then 'generation' else 'purge_on' end, monday + 7) into taken;
  if taken then
    return false;
  end if;
  -- Built apart and attached: readers and writers of the parent are not stopped.
  execute format('create table %I (like %I including defaults including generated)%s', name, parent, options);
  execute format('alter table %I enable row level security', name);
  execute format('alter table %I force row level security', name);
  execute format('create policy definer on %I to despatch_definer using (true) with check (true)', name);
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, name, monday, monday + 7);
  return true;
end $$;

-- Makes what the coming weeks need. Returns the number of partitions made.
create function make_partitions() returns integer
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  first_week date := date_trunc('week', (now() at time zone 'UTC'))::date;
  longest integer := (select greatest(90, max((limits ->> 'retentionDays')::integer)) from tenant_limits);
  made integer := 0;
  p record;
begin
  for p in select * from partition_names() loop
    for week in 0 .. (coalesce(longest, 90) / 7) + 3 loop
      made := made + make_partition(p.parent, p.options, first_week + week * 7)::integer;
    end loop;
  end loop;
  for week in -1 .. 2 loop
    made := made + make_partition('idempotency_keys', '', first_week + week * 7)::integer;
  end loop;
  return made;
end $$;

-- Drops what has served its time. An idempotency generation goes when its youngest key is older than seven days.
-- Returns the names of the partitions dropped. A drop that has to wait for a reader gives up: all others would queue up
-- behind it, and there is another hour.
create function purge() returns setof text
language plpgsql security definer set search_path = despatch, pg_temp set lock_timeout = '2s' as $$
declare
  today date := (now() at time zone 'UTC')::date;
  p record;
begin
  for p in
    select c.relname as name from pg_inherits i
    join pg_class c on c.oid = i.inhrelid join pg_class t on t.oid = i.inhparent
    join pg_namespace n on n.oid = t.relnamespace and n.nspname = 'despatch'
    where c.relname ~ '_\d{8}$' and (
      (t.relname in ('messages', 'message_states', 'attempt_log', 'event_log') and right(c.relname, 8)::date + 7 <= today)
      or (t.relname = 'idempotency_keys' and right(c.relname, 8)::date + 14 < today))
    order by c.relname
  loop
    execute format('drop table %I', p.name);
    return next p.name;
  end loop;
  delete from messages_default where purge_on < today;
  delete from message_states_default where purge_on < today;
  delete from attempt_log_default where purge_on < today;
  delete from event_log_default where purge_on < today;
  delete from idempotency_keys_default where generation + 14 < today;
  delete from rate_windows where second < extract(epoch from now())::bigint - 3600;
end $$;

select make_partitions();
