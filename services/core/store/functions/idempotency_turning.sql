-- Whether a generation is so young that transactions begun in the previous one may still be writing to that one.
create or replace function idempotency_turning(at timestamptz) returns boolean language sql immutable parallel safe
as $$ select at at time zone 'UTC' < idempotency_generation(at) + interval '5 minutes' $$;
