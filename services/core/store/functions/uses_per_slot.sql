-- Returns how often a counter's row is updated before a row of the next slot replaces it: enough that new rows are rare, and few
-- enough that scanning past all dead versions of a row is quick.
create or replace function uses_per_slot() returns integer language sql immutable parallel safe as $$ select 32 $$;
