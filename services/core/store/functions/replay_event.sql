-- Sends one event to an endpoint at a person's request: under the number that the event has in the endpoint's feed
-- (`redeliver_event`), else under the next number, for one call. `of_message`, `day` and `of_number` locate the event; message 0
-- means an event of the tenant, number 0 an acceptance. `message_types`: the entries of a message's history that are in feeds.
-- Verdicts: due, in_flight (a worker holds it), gone (the event or endpoint does not exist, or no longer), worn (it was called
-- for 1,000 times), early (it is not known yet whether the event passes the endpoint's filters).
create or replace function replay_event(of_tenant uuid, of_endpoint uuid, of_message bigint, day date, of_number bigint,
  message_types text[])
returns table (verdict text, seq bigint)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  -- The most by which the clock of an api or of a former primary may have been ahead of this one.
  slack constant interval := interval '5 min';
  happened_at timestamptz;
  -- The numbers that a feed may give it: the end of an attempt is named by the attempt.
  numbers_of bigint[];
  numbered_as bigint;
  numbered_at timestamptz;
  run record;
  reach record;
  given_at timestamptz;
begin
  if of_tenant is distinct from current_tenant() then
    return query select 'gone', null::bigint;
    return;
  end if;
  if of_message = 0 then
    select e.at, array[of_number] into happened_at, numbers_of from tenant_events e
    where e.event_seq = of_number and e.purge_on = day and e.tenant_id = of_tenant;
  elsif of_number = 0 then
    select m.enqueued_at, array[0] into happened_at, numbers_of from messages m
    where m.seq = of_message and m.purge_on = day and m.tenant_id = of_tenant;
  else
    select e.at, array[of_number] || case when e.source = 'worker' then -(e.details ->> 'attempt')::bigint end
    into happened_at, numbers_of from events e
    where e.message_seq = of_message and e.purge_on = day and e.tenant_id = of_tenant and e.event_seq = of_number and e.applied
      and e.type = any (message_types);
  end if;
  -- From here on no other transaction appends to the endpoint's feed.
  perform from webhook_endpoints w
  where w.id = of_endpoint and w.tenant_id = of_tenant and w.deleted_at is null for no key update;
  if not found or happened_at is null then
    return query select 'gone', null::bigint;
    return;
  end if;

  for run in
    select f.last_seq, f.numbers from endpoint_feed f
    where f.endpoint_id = of_endpoint and f.replayed and f.seqs[1] = of_message and f.purge_on = day
  loop
    if run.numbers[1] = any (numbers_of) then
      return query select redeliver_event(of_tenant, of_endpoint, run.last_seq), run.last_seq;
      return;
    end if;
  end loop;

  -- An event is numbered after it happened, and soon: one of the first runs from that time contains it.
  for run in
    select f.first_seq, f.seqs, f.numbers, f.numbered_at from feed f
    where f.tenant_id = of_tenant and f.purge_on = day and f.numbered_at >= happened_at - slack
    order by f.numbered_at, f.last_seq
  loop
    select run.first_seq + u.nth - 1, run.numbered_at into numbered_as, numbered_at
    from unnest(run.seqs, run.numbers) with ordinality as u (message_seq, number, nth)
    where u.message_seq = of_message and u.number = any (numbers_of);
    exit when found;
  end loop;
  select r.* into reach from endpoint_reach r where r.id = of_endpoint;
  if numbered_as is null or numbered_as > reach.matched_to then
    return query select 'early', null::bigint;
    return;
  end if;

  -- An event is matched after it is numbered: of this day's runs, the first that reaches its number contains it, or none does.
  for run in
    select f.first_seq, f.seqs, f.numbers, f.feed_seq from endpoint_feed f
    where f.endpoint_id = of_endpoint and f.purge_on = day and f.matched_at >= numbered_at - slack and not f.replayed
    order by f.matched_at, f.last_seq
  loop
    continue when run.feed_seq < numbered_as;
    return query
      select redeliver_event(of_tenant, of_endpoint, run.first_seq + u.nth - 1), run.first_seq + u.nth - 1
      from unnest(run.seqs, run.numbers) with ordinality as u (message_seq, number, nth)
      where u.message_seq = of_message and u.number = any (numbers_of);
    if found then
      return;
    end if;
    exit;
  end loop;

  seq := reach.last_seq + 1;
  given_at := greatest(clock_timestamp(), reach.matched_at);
  delete from endpoint_heads h
  where h.endpoint_id = of_endpoint and h.feed_seq = reach.matched_to and h.last_seq = reach.last_seq;
  insert into endpoint_heads (endpoint_id, feed_seq, last_seq, matched_at, tenant_id)
  values (of_endpoint, reach.matched_to, seq, given_at, of_tenant);
  insert into endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers, replayed)
  select seq, seq, reach.matched_to, given_at, of_endpoint, of_tenant, day, array[of_message],
    array[of_number], true;
  insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, manual, due_at)
  select of_endpoint, of_tenant, seq, seq, day, true, clock_timestamp();
  verdict := 'due';
  return next;
end $$;

grant execute on function replay_event(uuid, uuid, bigint, date, bigint, text[]) to despatch_api;
