-- Stores a window that was read under the lock of its subject, also if `purge_rows` has just deleted it as unused: the purge takes
-- no such lock.
create or replace function store_window(w rate_windows) returns void
language sql set search_path = despatch, pg_temp as $$
  with kept as (
    update rate_windows r set second = w.second, counts = w.counts, total = w.total,
      slot = next_slot(r.slot, r.uses), uses = next_uses(r.uses)
    where r.subject = w.subject and r.slot = w.slot returning r.subject
  )
  insert into rate_windows (subject, second, counts, total, uses)
  select w.subject, w.second, w.counts, w.total, 1 where not exists (select from kept)
$$;
