-- Returns the schema's version; every service's readiness check asks for it.
create or replace function schema_version() returns integer language sql stable security definer set search_path = despatch, pg_temp
as $$ select max(version) from migrations $$;

grant execute on function schema_version() to despatch_api, despatch_worker, despatch_controller;
