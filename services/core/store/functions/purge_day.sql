-- Returns the first Monday midnight (UTC) at which retention is over: rows are kept as long as promised and less than a week
-- longer, and there are few partitions.
create or replace function purge_day(accepted timestamptz, retention_days integer) returns date language sql immutable parallel safe
as $$
  -- Uses `timestamp` throughout: a cast that depends on the session's time zone could not be inlined, and could give another day.
  select date_trunc('week',
    (accepted at time zone 'UTC') + (retention_days + 7) * interval '1 day' - interval '1 microsecond')::date
$$;
