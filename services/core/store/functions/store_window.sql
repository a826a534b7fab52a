-- Stores a window that was read under the lock of its subject.
create or replace function store_window(w rate_windows) returns void
language sql set search_path = despatch, pg_temp as $$
  update rate_windows r set second = w.second, counts = w.counts, total = w.total,
    slot = next_slot(r.slot, r.uses), uses = next_uses(r.uses)
  where r.subject = w.subject and r.slot = w.slot
$$;
