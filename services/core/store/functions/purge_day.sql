-- The first midnight (UTC) between a Sunday and a Monday at which retention is over: rows stay as long as promised and
-- less than a week longer, partitions stay few.
create or replace function purge_day(accepted timestamptz, retention_days integer) returns date language sql immutable parallel safe
as $$
  -- All in `timestamp`: a cast by way of the session's time zone could not be inlined, and would mean another day.
  select date_trunc('week',
    (accepted at time zone 'UTC') + (retention_days + 7) * interval '1 day' - interval '1 microsecond')::date
$$;
