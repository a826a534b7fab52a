-- Returns how long the oldest call of a vendor has waited to be settled, or the oldest receipt to be applied, whichever is longer;
-- 0 if none waits. Receipts that wait for their message do not count, nor do calls that wait for usable settings of their account
-- or whose signature was refused: those are the tenant's to mend. Calls that wait for Vault do.
create or replace function oldest_receipt_seconds() returns double precision
language sql stable security definer set search_path = despatch, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  -- Hops from lane to lane over the index, in which each begins with its oldest receipt: many receipts cost no more than one.
  with recursive hops as (
    (select coalesce(x.account_id, x.tenant_id) as lane, x.apply_at from receipts x where not x.waiting
      order by coalesce(x.account_id, x.tenant_id), x.apply_at limit 1)
    union all
    select n.lane, n.apply_at from hops h,
    lateral (select coalesce(x.account_id, x.tenant_id) as lane, x.apply_at from receipts x
      where not x.waiting and coalesce(x.account_id, x.tenant_id) > h.lane
      order by coalesce(x.account_id, x.tenant_id), x.apply_at limit 1) n
  )
  -- A receipt that was put off is due later.
  select greatest(0, extract(epoch from clock_timestamp() - least(
    -- Reads past the calls that do not count, of which an account may have thousands: an index of the others would cost more at
    -- each call.
    (select c.received_at from receipt_calls c where not c.misconfigured and not c.refused order by c.id limit 1), (select min(h.apply_at) from hops h))))
$$;

grant execute on function oldest_receipt_seconds() to despatch_worker;
