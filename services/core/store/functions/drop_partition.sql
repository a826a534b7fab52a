-- Drops a partition whose rows are no longer needed; does nothing for any other. Returns whether it dropped one.
create or replace function drop_partition(of_parent text, of_monday date) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp set lock_timeout = '1s' as $$
begin
  if not exists (select from partition_tasks() t
    where t.task = 'drop' and t.parent = of_parent and t.monday = of_monday) then
    return false;
  end if;
  execute format('drop table %I', of_parent || '_' || to_char(of_monday::timestamp, 'YYYYMMDD'));
  return true;
end $$;

grant execute on function drop_partition(text, date) to despatch_worker;
