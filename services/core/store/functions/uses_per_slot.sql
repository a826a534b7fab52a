-- How often a row of a counter is changed before one of the next slot takes its place: enough that a new row is rare, few
-- enough that all versions of one are soon passed over.
create or replace function uses_per_slot() returns integer language sql immutable parallel safe as $$ select 32 $$;
