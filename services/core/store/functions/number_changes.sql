-- Numbers the changes committed since the previous pass: gives each tenant's events consecutive numbers in commit order, without
-- gaps, as runs in `feed`. Numbers are given after the commit, so that no transaction waits for another one's number, and by one
-- pass at a time. A pass starts from the snapshot of the previous pass: changes visible in that snapshot are numbered, all others
-- are not. If one transaction waited for another, the later one is never in an earlier pass, and within a pass has the higher
-- `id`.
--
-- Rows of `changes` are looked up one by one by their keys: a join that reads the index from its beginning would scan past
-- everything deleted since an old snapshot began.
--
-- A pass takes at most `most` rows of `changes`. Outcomes: numbered; more (there are, or may be, more than `most`); idle; early
-- (the previous pass ran less than `gap_ms` ago); elsewhere (another worker is running a pass).
-- `endpoint_tenants`: the tenants with new numbers that have webhook endpoints.
create or replace function number_changes(most integer, gap_ms integer)
returns table (outcome text, numbered bigint, endpoint_tenants uuid[])
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  before feed_passes;
  upto pg_snapshot;
  -- The database was restored into another cluster, where transaction ids are different.
  is_foreign boolean;
  taken integer;
  events bigint;
  told uuid[];
  last_taken bigint;
  cleared_to xid8;
begin
  if not pg_try_advisory_xact_lock(hashtext('despatch.feed')) then
    return query select 'elsewhere', 0::bigint, '{}'::uuid[];
    return;
  end if;
  -- Read after the lock, so that the previous pass has committed.
  select p.* into before from feed_passes p order by p.id desc limit 1;
  if before.target is null and before.at between at_now - make_interval(secs => gap_ms / 1000.0) and at_now then
    return query select 'early', 0::bigint, '{}'::uuid[];
    return;
  end if;
  is_foreign := is_foreign_xid(pg_snapshot_xmax(coalesce(before.target, before.done)));
  if is_foreign then
    lock table changes in exclusive mode;
    most := null;
  end if;
  upto := case when is_foreign or before.target is null then pg_current_snapshot() else before.target end;

  with unnumbered as (
    select c.xid, c.id from changes c
    where not is_foreign and c.xid >= pg_snapshot_xmax(before.done)
      and pg_visible_in_snapshot(c.xid, upto) and c.id > before.after_id
    union all
    -- Tests break this (mutant: feed-snapshot): a transaction that was running during the previous pass is numbered by a later
    -- one.
    select c.xid, c.id from pg_snapshot_xip(before.done) x (xid),
      lateral (select o.xid, o.id from changes o where o.xid = x.xid offset 0) c
    where not is_foreign and pg_visible_in_snapshot(c.xid, upto) and c.id > before.after_id
    union all
    select c.xid, c.id from changes c
    where is_foreign and (c.id > before.last_id or not pg_visible_in_snapshot(c.xid, before.done))
      -- The dump may have been made in the middle of a pass.
      and (before.target is null or c.id > before.after_id or not pg_visible_in_snapshot(c.xid, before.target))
  ), fresh as materialized (
    select c.id, c.tenant_ids, c.counts, c.seqs, c.purge_ons, c.numbers
    from (select u.xid, u.id from unnumbered u order by u.id limit most) u,
      lateral (select o.* from changes o where o.xid = u.xid and o.id = u.id offset 0) c
  ), event as (
    select o.tenant_id, e.seq, e.day, coalesce(e.number, 0) as number,
      row_number() over (partition by o.tenant_id order by f.id, e.nth) as nth
    from fresh f, lateral (
      select u.tenant_id, u.n, (sum(u.n) over (order by u.nth))::integer as upto
      from unnest(f.tenant_ids, f.counts) with ordinality as u (tenant_id, n, nth)
    ) o, unnest(f.seqs[o.upto - o.n + 1:o.upto], f.purge_ons[o.upto - o.n + 1:o.upto],
      f.numbers[o.upto - o.n + 1:o.upto]) with ordinality as e (seq, day, number, nth)
    -- A purged tenant has no feed, and the feed of a tenant that is being purged no longer grows.
    where exists (select from tenants t where t.id = o.tenant_id and t.status <> 'deleting')
  ), ranked as (
    -- `run` is the same for consecutive events of one day, and differs between separate runs of that day.
    select e.*, e.nth - row_number() over (partition by e.tenant_id, e.day order by e.nth) as run from event e
  ), chunk as materialized (
    select r.tenant_id, r.day, min(r.nth) as first_nth, max(r.nth) as last_nth, array_agg(r.seq order by r.nth) as seqs,
      array_agg(r.number order by r.nth) as numbers
    from ranked r group by r.tenant_id, r.day, r.run
  ), newest as materialized (
    select t.tenant_id, t.upto, coalesce(h.last_seq, 0) as last_seq, greatest(h.numbered_at, at_now) as at
    from (select c.tenant_id, max(c.last_nth) as upto from chunk c group by c.tenant_id) t
    left join lateral (
      select x.last_seq, x.numbered_at from feed_heads x where x.tenant_id = t.tenant_id order by x.last_seq desc limit 1) h on true
  ), left_behind as (
    delete from feed_heads h using newest n
    where h.tenant_id = any (array[n.tenant_id]) and h.last_seq = any (array[n.last_seq])
  ), headed as (
    insert into feed_heads (tenant_id, last_seq, numbered_at) select n.tenant_id, n.last_seq + n.upto, n.at from newest n
  ), stored as (
    insert into feed (first_seq, last_seq, numbered_at, tenant_id, purge_on, seqs, numbers)
    select n.last_seq + c.first_nth, n.last_seq + c.last_nth, n.at, c.tenant_id, c.day, c.seqs, c.numbers
    from chunk c join newest n on n.tenant_id = c.tenant_id
  )
  select count(*), max(f.id), (select coalesce(sum(c.last_nth - c.first_nth + 1), 0)::bigint from chunk c),
    array(select n.tenant_id from newest n
      where exists (select from webhook_endpoints w where w.tenant_id = n.tenant_id and w.deleted_at is null))
  into taken, last_taken, events, told from fresh f;

  if taken = 0 and before.target is null
    -- Numbered rows are deleted eventually, even if no change follows them.
    and not exists (select from changes c where c.xid >= before.cleared and c.xid < pg_snapshot_xmin(upto)) then
    return query select 'idle', 0::bigint, '{}'::uuid[];
    return;
  end if;
  -- Deletes rows numbered by earlier passes, in bounded numbers; `cleared` keeps later searches from scanning past deleted rows.
  if is_foreign then
    delete from changes;
    cleared_to := pg_snapshot_xmin(upto);
  else
    cleared_to := greatest(before.cleared, coalesce(
      (select c.xid from changes c where c.xid >= before.cleared and c.xid < pg_snapshot_xmin(before.done)
        order by c.xid offset 5000 limit 1),
      pg_snapshot_xmin(before.done)));
    delete from changes c where c.xid >= before.cleared and c.xid < cleared_to;
  end if;
  -- The one before the last hundred. Found from the newest one, because numbers may jump; nothing before it is read, where an old
  -- snapshot keeps what was deleted.
  delete from feed_passes p where p.id = (select x.id from feed_passes x order by x.id desc offset 100 limit 1);
  insert into feed_passes (done, target, after_id, last_id, cleared, endpoint_tenants) values (
    case when taken < most or most is null then upto else before.done end,
    case when taken < most or most is null then null else upto end,
    case when taken < most or most is null then 0 else last_taken end,
    greatest(before.last_id, last_taken), cleared_to, told);
  return query select case when taken = most or before.target is not null then 'more' else 'numbered' end, events, told;
end $$;

grant execute on function number_changes(integer, integer) to despatch_worker;
