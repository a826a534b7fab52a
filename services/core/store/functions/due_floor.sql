-- Returns the time at which a search of the lane's priority starts: the last look showed that nothing is due earlier, so the
-- search does not scan past dead index entries. `due_from`: milliseconds since the epoch for each priority; null searches from
-- the beginning.
create or replace function due_floor(due_from float8[], priority smallint) returns timestamptz
language sql immutable parallel safe as $$ select coalesce(to_timestamp(due_from[priority + 1] / 1000.0), '-infinity') $$;
