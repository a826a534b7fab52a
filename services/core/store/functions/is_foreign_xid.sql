-- Whether this transaction id, which a finished pass has stored, is of another cluster: one that this cluster has not reached yet,
-- because the database was restored from a dump. A higher cluster needs no such test: all its new transactions come later.
create or replace function is_foreign_xid(of_xid xid8) returns boolean
language sql stable parallel safe as $$
  select of_xid > pg_snapshot_xmax(pg_current_snapshot())
$$;
