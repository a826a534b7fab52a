-- Returns the level of a limit that has been reached, of which the tenant is notified: 0, 80 or 100 per cent.
create or replace function limit_percent(used bigint, of_limit bigint) returns smallint
language sql immutable as $$
  select (case when used >= of_limit then 100 when used * 100 >= of_limit * 80 then 80 else 0 end)::smallint
$$;
