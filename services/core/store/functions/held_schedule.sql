-- Returns messages of one lane that were held while they were scheduled, and whose instant is still to come. It reads a thousand
-- held messages of the lane at most: those that a brake holds may be millions. Messages that it does not find wait for the brake.
create or replace function held_schedule(of_tenant uuid, of_account uuid, of_priority smallint) returns table (seq bigint)
language sql stable set search_path = despatch, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
  select h.seq from (
    select l.seq, l.held_from, l.next_attempt_at from live_messages l
    where l.tenant_id = of_tenant and l.account_id = of_account and l.priority = of_priority and l.due_at = 'infinity'
    limit 1000
  ) h
  where h.held_from = 'scheduled' and h.next_attempt_at > clock_timestamp()
$$;
