-- Makes one event due again at an endpoint, or due sooner, at a person's request: an extra call outside the schedule. Verdicts:
-- due (it will be called for now, or as soon as the endpoint may be called), in_flight (a worker holds it), gone (the endpoint
-- does not have the event, or no longer), worn (it was called for 1,000 times; calls are numbered by a `smallint`). An event that
-- is already due is not duplicated: only a retry in a row of its own is brought forward.
create or replace function redeliver_event(of_tenant uuid, of_endpoint uuid, of_seq bigint) returns text
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
declare
  day date;
  due due_deliveries;
  made integer;
begin
  -- A transaction that deletes the endpoint waits for this lock, and then finds the row stored here.
  perform from webhook_endpoints w where w.id = of_endpoint and w.tenant_id = of_tenant for key share;
  select f.purge_on into day from (
    select x.first_seq, x.purge_on from endpoint_feed x
    where x.endpoint_id = of_endpoint and x.tenant_id = of_tenant and of_tenant = current_tenant() and x.last_seq >= of_seq
    order by x.last_seq limit 1
  ) f where f.first_seq <= of_seq;
  if day is null then
    return 'gone';
  end if;
  loop
    select d.* into due from due_deliveries d
    where d.endpoint_id = of_endpoint and d.first_seq between of_seq - 99 and of_seq and d.last_seq >= of_seq
    order by d.first_seq desc limit 1 for update;
    -- A worker that recorded an outcome while this transaction waited for the lock may have replaced the row.
    exit when found or not exists (select from due_deliveries d
      where d.endpoint_id = of_endpoint and d.first_seq between of_seq - 99 and of_seq and d.last_seq >= of_seq);
  end loop;
  if due.id is null then
    select coalesce(max(a.attempt), 0) into made from delivery_attempts a
    where a.endpoint_id = of_endpoint and a.seq = of_seq and a.purge_on = day;
    if made >= 1000 then
      return 'worn';
    end if;
    insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, attempts, manual, due_at)
    values (of_endpoint, of_tenant, of_seq, of_seq, day, made, true, clock_timestamp());
  elsif due.claim is not null and due.due_at > clock_timestamp() then
    return 'in_flight';
  elsif due.first_seq = due.last_seq and due.due_at between clock_timestamp() and '9999-01-01' then
    update due_deliveries d set due_at = clock_timestamp() where d.id = due.id;
  end if;
  return 'due';
end $$;

grant execute on function redeliver_event(uuid, uuid, bigint) to despatch_api;
