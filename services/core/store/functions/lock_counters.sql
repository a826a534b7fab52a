-- Locks the counters of these owners, each named once, until the transaction ends. Every transaction locks them in the order of
-- their ids, to avoid deadlocks. Only a statement that starts after this call sees the current counts.
create or replace function lock_counters(of_counter text, owners uuid[]) returns void
language plpgsql set search_path = despatch, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  locked integer;
begin
  for look in 1 .. 3 loop
    perform from counter_locks l where l.counter = of_counter and l.owner = any (owners) order by l.owner for update;
    get diagnostics locked = row_count;
    if locked = cardinality(owners) then
      return;
    end if;
    -- The lock rows of tenants are created with the tenants; missing ones belong to owners seen for the first time, or purged
    -- just now.
    insert into counter_locks (owner, counter) select o.id, of_counter from unnest(owners) as o (id) order by o.id
    on conflict do nothing;
  end loop;
  raise exception 'counters % of % owners could not be locked', of_counter, cardinality(owners);
end $$;
