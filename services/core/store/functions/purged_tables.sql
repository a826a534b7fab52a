-- Returns the tables whose obsolete rows must be deleted because they are not in a partition that is dropped: see `purge_rows`.
create or replace function purged_tables() returns setof text
language sql immutable security definer set search_path = despatch, pg_temp as $$
  select p.parent || '_default' from partition_names() p
  union all
  values ('due_deliveries'), ('webhook_endpoints'), ('suppressions'), ('receipt_calls'), ('workers'), ('routes'), ('provider_accounts'), ('rate_windows'), ('counter_locks'), ('account_rates'),
    ('usage_counts'), ('usage_times'), ('account_counts')
$$;

grant execute on function purged_tables() to despatch_worker;
