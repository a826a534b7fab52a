-- Writes the events of entries that come into force, and of those that are removed before they expire. A statement-level trigger:
-- every change has its event, whichever statement makes it, and a thousand entries are named at once. An import's statement
-- writes one event for all entries that it adds, because a hundred thousand events would delay the tenant's other events.
create or replace function note_suppression_events() returns trigger
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  tenants uuid[];
  days date[];
  numbers bigint[];
begin
  with told as (
    insert into tenant_events (purge_on, tenant_id, type, details, at)
    select purge_day(clock_timestamp(), coalesce((l.limits ->> 'retentionDays')::integer, 30)), e.tenant_id, e.type, e.details,
      clock_timestamp()
    from (
      select s.tenant_id, s.seq, case tg_op when 'DELETE' then 'suppression.removed' else 'suppression.added' end as type,
        jsonb_strip_nulls(jsonb_build_object('suppressionId', s.id, 'channel', s.channel, 'address', s.address,
          'hashed', s.address is null, 'reason', s.reason, 'scope', s.scope, 'source', s.source, 'messageId', s.message_id,
          'expiresAt', to_char(s.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))) as details
      from touched s
      where (tg_op = 'DELETE' or s.source <> 'import') and coalesce(s.expires_at, 'infinity') > clock_timestamp()
      union all
      select s.tenant_id, min(s.seq), 'suppression.imported', jsonb_build_object('entries', count(*))
      from touched s
      where tg_op <> 'DELETE' and s.source = 'import' and coalesce(s.expires_at, 'infinity') > clock_timestamp()
      group by s.tenant_id
    ) e
    join tenants t on t.id = e.tenant_id and t.status not in ('deleting', 'deleted')
    left join tenant_limits l on l.tenant_id = e.tenant_id
    order by e.seq
    returning tenant_id, purge_on, event_seq
  )
  select array_agg(e.tenant_id order by e.event_seq), array_agg(e.purge_on order by e.event_seq),
    array_agg(e.event_seq order by e.event_seq)
  into tenants, days, numbers
  from told e;
  perform note_changes(tenants, array_fill(0::bigint, array[coalesce(cardinality(tenants), 0)]), days, numbers);
  return null;
end $$;

create or replace trigger suppressions_added after insert on suppressions
  referencing new table as touched for each statement execute function note_suppression_events();
create or replace trigger suppressions_replaced after update on suppressions
  referencing new table as touched for each statement execute function note_suppression_events();
create or replace trigger suppressions_removed after delete on suppressions
  referencing old table as touched for each statement execute function note_suppression_events();
