-- Stores a window that was read under the lock of its subject.
create or replace function store_window(w rate_windows) returns void
language sql set search_path = despatch, pg_temp as $$
  update rate_windows r set second = w.second, counts = w.counts, total = w.total, slot = r.slot + (w.uses >= uses_per_slot())::integer,
    uses = case when w.uses < uses_per_slot() then r.uses + 1 else 1 end
  where r.subject = w.subject and r.slot = w.slot
$$;
