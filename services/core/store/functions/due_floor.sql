-- Before this nothing of the lane's priority is due, as a look has shown: a search begins there, and not among entries of
-- messages that are gone. `due_from`: in milliseconds since the epoch for each priority; without it all is searched.
create or replace function due_floor(due_from float8[], priority smallint) returns timestamptz
language sql immutable parallel safe as $$ select coalesce(to_timestamp(due_from[priority + 1] / 1000.0), '-infinity') $$;
