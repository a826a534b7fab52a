-- Lanes that have something to do. `due`: messages to claim or to decide about; `hold`: of a suspended tenant; `release`: of
-- an active tenant that has messages held. Hops from lane to lane over the index, so that a large backlog costs no more
-- than a small one.
create or replace function due_lanes() returns table (tenant_id uuid, account_id uuid, task text, oldest_due timestamptz)
language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  with recursive hop as (
    (select d.tenant_id, d.account_id, d.priority, d.due_at from live_messages d
      order by d.tenant_id, d.account_id, d.priority, d.due_at limit 1)
    union all
    select n.tenant_id, n.account_id, n.priority, n.due_at from hop h, lateral (
      select d.tenant_id, d.account_id, d.priority, d.due_at from live_messages d
      where (d.tenant_id, d.account_id, d.priority) > (h.tenant_id, h.account_id, h.priority)
      order by d.tenant_id, d.account_id, d.priority, d.due_at limit 1) n
  ), lane as materialized (
    select h.tenant_id, h.account_id, array_agg(h.priority) as priorities, min(h.due_at) as due_at
    from hop h group by h.tenant_id, h.account_id
  )
  select l.tenant_id, l.account_id, 'due', l.due_at
  from lane l join tenants t on t.id = l.tenant_id where l.due_at <= clock_timestamp() and t.status = 'active'
  union all
  select distinct l.tenant_id, null::uuid, 'hold', null::timestamptz
  from lane l join tenants t on t.id = l.tenant_id where l.due_at <= clock_timestamp() and t.status <> 'active'
  union all
  select distinct l.tenant_id, null::uuid, 'release', null::timestamptz
  from lane l join tenants t on t.id = l.tenant_id
  where t.status = 'active' and exists (
    select from live_messages d
    where d.tenant_id = l.tenant_id and d.account_id = l.account_id and d.priority = any (l.priorities)
      and d.due_at = 'infinity')
$$;

grant execute on function due_lanes() to despatch_worker;
