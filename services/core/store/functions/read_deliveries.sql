-- Returns the events of claimed rows, {due_id, claim}, in their order. `blocked`: the endpoint is ordered, and an earlier event
-- of the same message waits in a row of its own.
create or replace function read_deliveries(claimed json, message_types text[])
returns table (due_id bigint, blocked boolean, event feed_event)
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  return query
    select d.id, w.ordered and e.message_seq > 0 and exists (
        select from due_deliveries x where x.endpoint_id = d.endpoint_id and x.message_seq = e.message_seq and x.id <> d.id
          and x.first_seq < e.seq),
      e::feed_event
    from json_to_recordset(claimed) as c (due_id bigint, claim bigint)
    join due_deliveries d on d.id = any (array[c.due_id]) and d.claim = any (array[c.claim])
    join webhook_endpoints w on w.id = any (array[d.endpoint_id])
    cross join lateral read_events(d.tenant_id, d.endpoint_id, d.first_seq - 1, (d.last_seq - d.first_seq + 1)::integer,
      message_types, null, null, null, (d.last_seq - d.first_seq + 1)::integer) e
    where e.seq <= d.last_seq
    order by d.id, e.seq;
end $$;

grant execute on function read_deliveries(json, text[]) to despatch_worker;
