-- Returns the column by which a table is partitioned.
create or replace function partition_key(parent text) returns text language sql immutable as $$
  select case parent when 'idempotency_keys' then 'generation' else 'purge_on' end
$$;
