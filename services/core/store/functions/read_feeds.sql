-- Returns the next events of several tenants' feeds, for a worker that matches them with endpoints: of each tenant those after its
-- entry of `after_seqs`, at most `rows` keys (`read_events`). One call for many tenants, because preparing for the partitions of
-- all weeks takes longer than to read some events. Each row says how far its tenant's feed was read; a tenant without new keys has
-- no row.
create or replace function read_feeds(of_tenants uuid[], after_seqs bigint[], rows integer, message_types text[])
returns table (tenant_id uuid, event feed_event)
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  -- The keys: one element per event, the tenants one after the other.
  key_tenants uuid[];
  key_seqs bigint[];
  key_days date[];
  key_messages bigint[];
  key_numbers bigint[];
begin
  select array_agg(k.tenant_id), array_agg(k.seq), array_agg(k.purge_on), array_agg(k.message_seq), array_agg(k.number)
  into key_tenants, key_seqs, key_days, key_messages, key_numbers
  from (
    select t.tenant_id, f.seq, f.purge_on, f.message_seq, f.number
    from unnest(of_tenants, after_seqs) as t (tenant_id, after_seq)
    cross join lateral (
      select f.first_seq + u.nth - 1 as seq, f.purge_on, u.message_seq, u.number
      from (
        select r.last_seq, r.purge_on, sum(r.fresh) over (order by r.last_seq) - r.fresh as passed from (
          select f.last_seq, f.purge_on, f.last_seq - greatest(f.first_seq, t.after_seq + 1) + 1 as fresh
          from feed f where f.tenant_id = t.tenant_id and f.last_seq > t.after_seq
          order by f.last_seq limit rows
        ) r
      ) w
      cross join lateral (
        select * from feed f where f.tenant_id = t.tenant_id and f.last_seq = w.last_seq and f.purge_on = w.purge_on offset 0
      ) f, unnest(f.seqs, f.numbers) with ordinality as u (message_seq, number, nth)
      where w.passed < rows and f.first_seq + u.nth - 1 > t.after_seq
      order by 1 limit rows
    ) f
    order by t.tenant_id, f.seq
  ) k;
  return query
    with read as materialized (
      select k.tenant_id, count(*)::integer as scanned, max(k.seq) as end_seq
      from unnest(key_tenants, key_seqs) as k (tenant_id, seq) group by k.tenant_id
    ), found as materialized (
      select e.* from (select distinct u.day from unnest(key_days) as u (day)) d
      cross join lateral events_of_day(d.day, key_tenants, key_days, key_messages, key_numbers, message_types, null, null,
        null, null) e
    )
    select r.tenant_id, row(r.scanned, r.end_seq, key_seqs[f.seq], f.message_seq, f.number, f.purge_on, f.event_seq, f.type, f.at,
      f.details, f.sequence, f.message_id, f.test, f.external_id, f.channel, f.recipient, f.category, f.metadata, f.tags,
      f.is_final, f.attempt, f.account_id, f.provider)::feed_event
    from read r left join found f on key_tenants[f.seq] = r.tenant_id
    order by f.seq;
end $$;

grant execute on function read_feeds(uuid[], bigint[], integer, text[]) to despatch_worker;
