-- Returns how many partitions must be made and dropped. `blocked`: rows of their week are already in the default partition, and
-- are moved when the partition is made unless they are too many (`make_partition`). No rows if nothing is due.
create or replace function partitions_due() returns table (task text, partitions integer)
language plpgsql stable security definer set search_path = despatch, pg_temp as $$
declare
  t record;
  blocked boolean;
  counts jsonb := '{}';
begin
  for t in select p.task, p.parent, p.monday from partition_tasks() p loop
    blocked := false;
    if t.task = 'make' then
      execute format('select exists (select from %I where %I >= %L and %I < %L)', t.parent || '_default', partition_key(t.parent),
        t.monday, partition_key(t.parent), t.monday + 7) into blocked;
    end if;
    t.task := case when blocked then 'blocked' else t.task end;
    counts := counts || jsonb_build_object(t.task, coalesce((counts ->> t.task)::integer, 0) + 1);
  end loop;
  return query select c.key, c.value::integer from jsonb_each_text(counts) c order by c.key;
end $$;

grant execute on function partitions_due() to despatch_worker;
