-- Creates the weekly partition of `parent` that begins on `monday`, unless it exists. Rows of that week that are already in the
-- default partition, because a plan's retention became longer a moment ago, are moved. If the default partition is larger than
-- `despatch.move_bytes_max` (16 MB), which would lock the table for seconds, no partition is made: `purge_rows` deletes those rows
-- when their day comes.
create or replace function make_partition(of_parent text, of_monday date) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp set lock_timeout = '1s' as $$
declare
  name text := of_parent || '_' || to_char(of_monday::timestamp, 'YYYYMMDD');
  key text := partition_key(of_parent);
  storage text;
  spare text := of_parent || '_default';
  bytes_max bigint := coalesce(nullif(current_setting('despatch.move_bytes_max', true), ''), '16777216')::bigint;
  taken boolean;
begin
  select p.options into storage from partition_tasks() t join partition_names() p on p.parent = t.parent
  where t.task = 'make' and t.parent = of_parent and t.monday = of_monday;
  if storage is null then
    return false;
  end if;
  execute format('select exists (select from %I where %I >= %L and %I < %L)', spare, key, of_monday, key, of_monday + 7)
  into taken;
  if taken then
    if pg_table_size(format('despatch.%I', spare)::regclass) > bytes_max then
      return false;
    end if;
    -- The parent first: a statement that has planned with the partitions as they are would look for the rows where they were, and
    -- one that has chosen the default partition for a new row would fail. Both have ended when this lock is granted.
    execute format('lock table only %I in access exclusive mode', of_parent);
    execute format('lock table only %I in access exclusive mode', spare);
  end if;
  -- Created apart and then attached: unless rows are moved, this blocks only readers and writers of the default partition.
  execute format('create table %I (like %I including defaults including generated including storage)%s', name, of_parent, storage);
  execute format('alter table %I enable row level security', name);
  execute format('alter table %I force row level security', name);
  execute format('create policy definer on %I to despatch_definer using (true) with check (true)', name);
  if taken then
    execute format('with moved as (delete from %1$I where %2$I >= %3$L and %2$I < %4$L returning *)
        insert into %5$I select * from moved',
      spare, key, of_monday, of_monday + 7, name);
  end if;
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', of_parent, name, of_monday,
    of_monday + 7);
  return true;
end $$;

grant execute on function make_partition(text, date) to despatch_worker;
