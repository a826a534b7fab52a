-- Records the results of claims: {due_id, claim, messages, attempts, again, uncalled}. Deletes their due rows, logs their
-- attempts, and inserts a row for each event that must be called for again. Events that were not called for stay in stretches,
-- {first, last}, so that an endpoint that is not called keeps as few rows as before. Ignores a claim that another worker holds by
-- now, and returns how many those are.
-- `messages`: the messages whose events the claim held; if the endpoint is ordered by now, the earliest waiting event of each
-- becomes due now. An event in `again` without `due_in_ms` waits for an earlier event of its message.
create or replace function complete_deliveries(completions json) returns integer
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
declare
  at_now timestamptz;
  -- Due rows of ordered endpoints, and due rows for which no call was made.
  in_order bigint[] := array(
    select c.due_id from json_to_recordset(completions) as c (due_id bigint, messages bigint[])
    join due_deliveries d on d.id = any (array[c.due_id])
    join webhook_endpoints w on w.id = any (array[d.endpoint_id])
    where w.ordered and cardinality(c.messages) > 0);
  given_back bigint[] := array(
    select c.due_id from json_to_recordset(completions) as c (due_id bigint, attempts json) where json_array_length(c.attempts) = 0);
  locked uuid[];
  kept bigint[];
begin
  -- Serializes completions of one ordered endpoint: the later one sees which rows the earlier one has left.
  select array_agg(x.id) into locked from (
    select w.id from webhook_endpoints w
    where w.id = any (array(select d.endpoint_id from due_deliveries d where d.id = any (in_order)) || array(
      select d.endpoint_id from due_deliveries d join webhook_endpoints e on e.id = any (array[d.endpoint_id])
      where d.id = any (given_back) and e.call_at = d.due_at))
    order by w.id for no key update
  ) x;
  select array_agg(x.id) into kept from (
    select d.id from json_to_recordset(completions) as c (due_id bigint, claim bigint)
    -- Tests break this (mutant: delivery-claim): a worker whose lease is over changes nothing.
    join due_deliveries d on d.id = any (array[c.due_id]) and d.claim = any (array[c.claim])
    order by d.id for update of d
  ) x;
  -- After the locks, because acquiring them may take time: a search starts at the time of the last look, and would miss what became
  -- due before it.
  at_now := clock_timestamp();
  -- A probe that was not made must not delay the next one: its claim had put off the next call until the end of the lease.
  with back as materialized (
    select d.endpoint_id, d.due_at from due_deliveries d where d.id = any (given_back) and d.id = any (kept)
  )
  update webhook_endpoints w set call_at = at_now from back b
  where w.id = any (array[b.endpoint_id]) and w.id = any (locked) and w.status = 'failing' and w.call_at = b.due_at;
  with told as (
    select c.due_id, c.attempts, c.again, c.uncalled
    from json_to_recordset(completions) as c (due_id bigint, attempts json, again json, uncalled json) where c.due_id = any (kept)
  ), done as (
    delete from due_deliveries d where d.id = any (kept) returning d.*
  ), logged as (
    insert into delivery_attempts (endpoint_id, seq, attempt, purge_on, tenant_id, at, duration_ms, status, error, answer,
      succeeded)
    select d.endpoint_id, a.seq, a.attempt, d.purge_on, d.tenant_id, a.at, a.duration_ms, a.status, a.error, a.answer, a.succeeded
    from told t join done d on d.id = t.due_id
    cross join lateral json_to_recordset(t.attempts) as a (seq bigint, attempt smallint, at timestamptz, duration_ms integer,
      status smallint, error text, answer text, succeeded boolean)
    on conflict do nothing
  ), owed as materialized (
    select d.*, t.again, t.uncalled, w.ordered from told t join done d on d.id = t.due_id
    join webhook_endpoints w on w.id = any (array[d.endpoint_id])
  )
  insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, message_seq, attempts, manual, due_at)
  select o.endpoint_id, o.tenant_id, a.seq, a.seq, o.purge_on, a.message_seq, a.attempts, o.manual,
    case
      when a.due_in_ms is not null then at_now + make_interval(secs => a.due_in_ms / 1000.0)
      -- If the endpoint is no longer ordered, no completion would release the event later.
      when o.ordered then 'infinity'
      else at_now
    end
  from owed o
  -- Tests break this (mutant: called-again): an event that was not delivered is called for again.
  cross join lateral json_to_recordset(o.again) as a (seq bigint, attempts smallint, due_in_ms bigint, message_seq bigint)
  union all
  select o.endpoint_id, o.tenant_id, u.first, u.last, o.purge_on, o.message_seq, o.attempts, o.manual, at_now
  from owed o cross join lateral json_to_recordset(o.uncalled) as u (first bigint, last bigint);
  if locked is not null then
    update due_deliveries d set due_at = at_now
    where d.due_at = 'infinity' and d.id = any (array(
      select y.id from (
        select distinct u.message_seq from json_to_recordset(completions) as c (due_id bigint, messages bigint[]),
          unnest(c.messages) as u (message_seq)
        where c.due_id = any (in_order)
      ) m
      cross join unnest(locked) as e (id)
      cross join lateral (
        select x.id, x.due_at from due_deliveries x where x.endpoint_id = e.id and x.message_seq = m.message_seq
        order by x.first_seq limit 1
      ) y where y.due_at = 'infinity'));
  end if;
  return json_array_length(completions) - coalesce(cardinality(kept), 0);
end $$;

grant execute on function complete_deliveries(json) to despatch_worker;
