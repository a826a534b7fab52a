-- Drops a partition whose rows are no longer needed; does nothing for any other, nor while messages of its week are live, or have
-- ended and their ends are not counted and told (`unsettled_days`). Returns whether it dropped one.
create or replace function drop_partition(of_parent text, of_monday date) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp set lock_timeout = '1s' as $$
begin
  if not exists (select from partition_tasks() t
    where t.task = 'drop' and t.parent = of_parent and t.monday = of_monday) then
    return false;
  end if;
  if partition_key(of_parent) = 'purge_on'
    and exists (select from unsettled_days() d where d >= of_monday and d < of_monday + 7) then
    return false;
  end if;
  execute format('drop table %I', of_parent || '_' || to_char(of_monday::timestamp, 'YYYYMMDD'));
  return true;
end $$;

grant execute on function drop_partition(text, date) to despatch_worker;
