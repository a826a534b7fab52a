create or replace function idempotency_generation(at timestamptz) returns date language sql immutable parallel safe
as $$ select date_trunc('week', at at time zone 'UTC')::date $$;
