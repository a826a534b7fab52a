-- Serializes applying a resource and recording that it is gone, even if there is no row to lock yet. Taken before any row lock.
create or replace function lock_resource(of_uid text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('resource ' || of_uid, 0))
$$;
