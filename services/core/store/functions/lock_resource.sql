-- What a resource says and that it is gone are written one after the other, also where there is no row to lock yet.
-- Taken before any lock of a row.
create or replace function lock_resource(of_uid text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('resource ' || of_uid, 0))
$$;
