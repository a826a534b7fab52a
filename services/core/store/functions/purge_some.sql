-- Deletes at most `most` messages with all their rows, or other rows when no message is left.
-- `outcome`: deleted (there may be more), draining (provider calls are under way, which end by themselves or with their lease; or
-- the purge began less than ten seconds ago), empty (only the tenant's own rows are left), absent (no purge of this resource is
-- under way). `id`: the tenant whose rows they are; only this tenant's key may be destroyed, and only after `empty`.
create or replace function purge_some(of_slug text, of_uid text, most integer) returns table (outcome text, deleted integer, id uuid)
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
declare
  who uuid;
  seqs bigint[];
  endpoints uuid[];
  part text;
  n integer := 0;
  under_way boolean;
begin
  select t.id into who from tenants t where t.slug = of_slug and t.owner_uid = of_uid and t.status = 'deleting';
  if who is null then
    return query select 'absent', 0, null::uuid;
    return;
  end if;
  seqs := array(select m.seq from messages m where m.tenant_id = who
    and not exists (select from live_messages l where l.seq = m.seq and l.tenant_id is not distinct from who
      and l.status = 'sending' and l.lease_until >= now())
    limit most);
  if cardinality(seqs) > 0 then
    -- The tenant is compared as well: after a failover that lost the end of the log, two messages may have one number. Not with
    -- `=`, so that the planner looks the numbers up, and does not read all rows of the tenant.
    -- Rows that other transactions lock too are locked in the common order: by number, whichever partition they are in.
    -- `failover_waits` comes first, because a transaction that holds such a row may make its message live again.
    perform from failover_waits w where w.seq = any (seqs) and w.tenant_id is not distinct from who order by w.seq for update;
    perform from live_messages l where l.seq = any (seqs) and l.tenant_id is not distinct from who order by l.seq for update;
    -- A message with a call under way stays until the outcome is recorded or the lease is over.
    delete from live_messages l where l.seq = any (seqs) and l.tenant_id is not distinct from who
      and (l.status <> 'sending' or l.lease_until < now());
    seqs := array(select u.seq from unnest(seqs) as u (seq)
      where not exists (select from live_messages l where l.seq = u.seq and l.tenant_id is not distinct from who));
    delete from failover_waits w where w.seq = any (seqs) and w.tenant_id is not distinct from who;
    perform from awaited_receipts a where a.seq = any (seqs) and a.tenant_id is not distinct from who order by a.seq for update;
    delete from awaited_receipts a where a.seq = any (seqs) and a.tenant_id is not distinct from who;
    perform from lookups l where l.seq = any (seqs) and l.tenant_id is not distinct from who order by l.seq for update;
    delete from lookups l where l.seq = any (seqs) and l.tenant_id is not distinct from who;
    -- Transactions that apply receipts lock these rows first.
    perform from message_results s where s.seq = any (seqs) and s.tenant_id is not distinct from who order by s.seq for update;
    -- Transactions that store something of a message with neither a live row nor a result lock this row (`complete`,
    -- `settle_lookups`).
    perform from messages m where m.seq = any (seqs) and m.tenant_id is not distinct from who order by m.seq for update;
    delete from attempt_log a where a.message_seq = any (seqs) and a.tenant_id is not distinct from who;
    delete from event_log e where e.message_seq = any (seqs) and e.tenant_id is not distinct from who;
    delete from message_results s where s.seq = any (seqs) and s.tenant_id is not distinct from who;
    delete from message_contents c where c.message_seq = any (seqs) and c.tenant_id is not distinct from who;
    delete from messages m where m.seq = any (seqs) and m.tenant_id is not distinct from who;
    return query select 'deleted', cardinality(seqs), who;
    return;
  end if;
  under_way := exists (select from messages m where m.tenant_id = who);
  if under_way then
    return query select 'draining', 0, who;
    return;
  end if;
  -- A tenant may have had very many endpoints: each call purges some of them with all their rows.
  endpoints := array(select w.id from webhook_endpoints w where w.tenant_id = who order by w.number limit 100);
  if cardinality(endpoints) > 0 then
    n := purge_endpoint_rows(endpoints, most);
    if n = 0 then
      perform purge_endpoints(endpoints);
      n := cardinality(endpoints);
    end if;
    return query select 'deleted', n, who;
    return;
  end if;
  delete from suppressions s where s.seq = any (array(select x.seq from suppressions x where x.tenant_id = who limit most));
  get diagnostics n = row_count;
  if n > 0 then
    return query select 'deleted', n, who;
    return;
  end if;
  -- No pass numbers events of this tenant any more, except one that began before the purge.
  delete from feed f using (select x.last_seq, x.purge_on from feed x where x.tenant_id = who limit most) k
  where f.tenant_id = who and (f.last_seq, f.purge_on) = (k.last_seq, k.purge_on);
  get diagnostics n = row_count;
  if n = 0 then
    delete from tenant_events e using (select x.event_seq, x.purge_on from tenant_events x where x.tenant_id = who limit most) k
    where (e.event_seq, e.purge_on) = (k.event_seq, k.purge_on);
    get diagnostics n = row_count;
  end if;
  if n > 0 then
    return query select 'deleted', n, who;
    return;
  end if;
  -- No index leads from a message to its receipts. They are deleted when no message is left, by the turns of the tenant's
  -- accounts and simulators. Waiting receipts of simulators are few and left to `end_purge`.
  delete from receipts r where r.id = any (array(
    select x.id from (select who as turn union all select p.id from provider_accounts p where p.tenant_id = who) t
    cross join lateral (
      (select y.id from receipts y where coalesce(y.account_id, y.tenant_id) = t.turn and not y.waiting limit most)
      union all
      (select y.id from receipts y where y.account_id = t.turn and y.waiting
        -- In the order of the index that leads to the account's rows.
        order by y.account_id, y.provider_message_id limit most)
    ) x limit most));
  get diagnostics n = row_count;
  if n > 0 then
    return query select 'deleted', n, who;
    return;
  end if;
  delete from receipt_calls c where c.id = any (array(
    select x.id from receipt_calls x join provider_accounts p on p.id = x.account_id where p.tenant_id = who limit most));
  get diagnostics n = row_count;
  if n > 0 then
    return query select 'deleted', n, who;
    return;
  end if;
  delete from usage_counts u where u.ctid = any (array(select x.ctid from usage_counts x where x.tenant_id = who limit most));
  get diagnostics n = row_count;
  if n = 0 then
    delete from usage_times u where u.ctid = any (array(select x.ctid from usage_times x where x.tenant_id = who limit most));
    get diagnostics n = row_count;
  end if;
  if n = 0 then
    delete from account_counts c where c.ctid = any (array(select x.ctid from account_counts x where x.tenant_id = who limit most));
    get diagnostics n = row_count;
  end if;
  if n > 0 then
    return query select 'deleted', n, who;
    return;
  end if;
  delete from audit_log a where a.seq = any (array(select x.seq from audit_log x where x.tenant_id = who limit most));
  get diagnostics n = row_count;
  if n > 0 then
    return query select 'deleted', n, who;
    return;
  end if;
  -- An api that missed the notice treats the tenant as active for five more seconds, and would create its key again for a new
  -- secret. Nobody would destroy that one.
  if exists (select from tenants t where t.id = who and t.updated_at > now() - interval '10 seconds') then
    return query select 'draining', 0, who;
    return;
  end if;
  -- No index leads from a tenant to its idempotency keys: one scan of a partition deletes all of them. This step is last, because
  -- every call that gets here scans all partitions.
  for part in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'despatch.idempotency_keys'::regclass order by 1
  loop
    execute format('delete from %I k where k.tenant_id = $1', part) using who;
    get diagnostics n = row_count;
    if n > 0 then
      return query select 'deleted', n, who;
      return;
    end if;
  end loop;
  return query select 'empty', 0, who;
end $$;

grant execute on function purge_some(text, text, integer) to despatch_controller;
