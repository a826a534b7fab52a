-- Whether the functions of the release with this digest have been applied; every service's readiness check asks this. Functions
-- of a newer release may have replaced them, or have been left in force, and serve this release's services too.
create or replace function has_functions(of_digest bytea) returns boolean
language sql stable security definer set search_path = despatch, pg_temp as $$
  select exists (select from function_releases where digest = of_digest)
$$;

grant execute on function has_functions(bytea) to despatch_api, despatch_worker, despatch_controller;
