-- Returns the bucket in which a duration is counted: 0 below a millisecond, then four per doubling, 120 from ten days on
-- (core/domain/tenant/time-buckets.ts).
create or replace function time_bucket(ms float8) returns integer language sql immutable parallel safe as $$
  select case when ms < 1 then 0 else least(1 + floor(ln(ms) / ln(2::float8) * 4)::integer, 120) end
$$;
