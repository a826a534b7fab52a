-- Prepares a database for Despatch if the migration may not create roles by itself. Run it in that database as a superuser, or as
-- the database's owner with CREATEROLE; it may be run again. Needs Postgres 18 or newer.
--
-- It sets no passwords. Afterwards, in psql: \password despatch_migrate, and so on for each role that logs in.

do $$
declare
  role_name text;
begin
  -- Owns all objects and cannot log in: rights over all tenants exist only inside its functions.
  if not exists (select from pg_roles where rolname = 'despatch_definer') then
    create role despatch_definer nologin;
  end if;
  foreach role_name in array array['despatch_migrate', 'despatch_api', 'despatch_worker', 'despatch_controller'] loop
    if not exists (select from pg_roles where rolname = role_name) then
      execute format('create role %I login', role_name);
    end if;
  end loop;
end
$$;

-- The migration creates objects as their owner and reads which of them exist.
grant despatch_definer to despatch_migrate with inherit true, set true;

-- No other role may connect to this database. The migrations grant the services' rights inside it.
do $$
declare
  database_name text := current_database();
begin
  execute format('revoke all on database %I from public', database_name);
  execute format('grant connect on database %I to despatch_migrate, despatch_api, despatch_worker, despatch_controller', database_name);
  -- To create the schema.
  execute format('grant create on database %I to despatch_migrate', database_name);
end
$$;
