-- Returns the partitions to make and to drop, those to make first.
create or replace function partition_tasks() returns table (task text, parent text, monday date)
language sql stable security definer set search_path = despatch, pg_temp as $$
  with clock as (
    select (now() at time zone 'UTC')::date as today, date_trunc('week', now() at time zone 'UTC')::date as this_week
  ), longest as (
    -- The retention of a scheduled message starts at its instant, plus a week in which the instant can still be postponed
    -- (core/domain/message/schedule.ts).
    select greatest(90, max((limits ->> 'retentionDays')::integer),
      max((limits ->> 'retentionDays')::integer + (limits ->> 'scheduleHorizonDays')::integer + 7)) as days
    from tenant_limits
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

grant execute on function partition_tasks() to despatch_worker;
