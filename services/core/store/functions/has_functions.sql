-- Whether the functions of a release, known by their digest, have been applied, for the gate in every service's
-- readiness. A later release's have taken their place where there is one, and serve the earlier one's services too.
create or replace function has_functions(of_digest bytea) returns boolean
language sql stable security definer set search_path = despatch, pg_temp as $$
  select exists (select from function_releases where digest = of_digest)
$$;

grant execute on function has_functions(bytea) to despatch_api, despatch_worker, despatch_controller;
