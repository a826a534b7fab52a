-- Returns a stretch of a tenant's feed, or of one endpoint's, in the order of its numbers: starts after `after_seq`, reads at
-- most `rows` keys, and returns at most `most` events that pass the filters (null: no filter; a type may end in `.*`). Keys of
-- purged events return nothing. `message_types`: the entries of a message's history that are in feeds, from which an event gets
-- its `sequence`. Each row says how far the call read; if no event passed, one row without an event does.
create or replace function read_events(of_tenant uuid, of_endpoint uuid, after_seq bigint, rows integer, message_types text[],
  of_type text, since timestamptz, of_test boolean, most integer)
returns setof feed_event
language plpgsql stable set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
declare
  -- The keys of the stretch: one element per event, in order.
  key_tenants uuid[];
  key_seqs bigint[];
  key_days date[];
  key_messages bigint[];
  key_numbers bigint[];
begin
  -- Unnests no more runs than contain the requested rows, because one run may hold thousands of keys: `passed` are those before it.
  if of_endpoint is null then
    select array_agg(k.seq), array_agg(k.purge_on), array_agg(k.message_seq), array_agg(k.number)
    into key_seqs, key_days, key_messages, key_numbers
    from (
      select f.first_seq + u.nth - 1 as seq, f.purge_on, u.message_seq, u.number
      from (
        select r.last_seq, r.purge_on, sum(r.fresh) over (order by r.last_seq) - r.fresh as passed from (
          select f.last_seq, f.purge_on, f.last_seq - greatest(f.first_seq, after_seq + 1) + 1 as fresh
          from feed f where f.tenant_id = of_tenant and f.last_seq > after_seq
          order by f.last_seq limit rows
        ) r
      ) w
      cross join lateral (
        select * from feed f where f.tenant_id = of_tenant and f.last_seq = w.last_seq and f.purge_on = w.purge_on offset 0
      ) f, unnest(f.seqs, f.numbers) with ordinality as u (message_seq, number, nth)
      where w.passed < rows and f.first_seq + u.nth - 1 > after_seq
      order by 1 limit rows
    ) k;
  else
    select array_agg(k.seq), array_agg(k.purge_on), array_agg(k.message_seq), array_agg(k.number)
    into key_seqs, key_days, key_messages, key_numbers
    from (
      select f.first_seq + u.nth - 1 as seq, f.purge_on, u.message_seq, u.number
      from (
        select r.last_seq, r.purge_on, sum(r.fresh) over (order by r.last_seq) - r.fresh as passed from (
          select f.last_seq, f.purge_on, f.last_seq - greatest(f.first_seq, after_seq + 1) + 1 as fresh
          from endpoint_feed f where f.endpoint_id = of_endpoint and f.tenant_id = of_tenant and f.last_seq > after_seq
          order by f.last_seq limit rows
        ) r
      ) w
      cross join lateral (
        select * from endpoint_feed f
        where f.endpoint_id = of_endpoint and f.tenant_id = of_tenant and f.last_seq = w.last_seq and f.purge_on = w.purge_on offset 0
      ) f, unnest(f.seqs, f.numbers) with ordinality as u (message_seq, number, nth)
      where w.passed < rows and f.first_seq + u.nth - 1 > after_seq
      order by 1 limit rows
    ) k;
  end if;
  key_tenants := array_fill(of_tenant, array[coalesce(cardinality(key_seqs), 0)]);
  return query
    with found as materialized (
      select e.* from (select distinct u.day from unnest(key_days) as u (day)) d
      cross join lateral events_of_day(d.day, key_tenants, key_days, key_messages, key_numbers, message_types, of_type, since,
        of_test, most) e
      order by e.seq limit most
    )
    select coalesce(cardinality(key_seqs), 0), key_seqs[cardinality(key_seqs)], key_seqs[f.seq], f.message_seq, f.number, f.purge_on,
      f.event_seq, f.type, f.at, f.details, f.sequence, f.message_id, f.test, f.external_id, f.channel, f.recipient, f.category,
      f.metadata, f.tags, f.is_final, f.attempt, f.account_id, f.provider
    from (select) one left join found f on true
    order by f.seq;
end $$;

grant execute on function read_events(uuid, uuid, bigint, integer, text[], text, timestamptz, boolean, integer) to despatch_api;
