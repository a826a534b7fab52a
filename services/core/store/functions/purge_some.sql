-- Deletes at most `most` messages with all that hangs on them, or other rows when no message is left.
-- `outcome`: deleted (there may be more), draining (only provider calls under way are left, they end by themselves or
-- with their lease), empty (only the tenant's own rows are left), absent (no purge of this resource is under way).
-- `id`: whose rows they are; the key to destroy is that tenant's and no other's.
create or replace function purge_some(of_slug text, of_uid text, most integer) returns table (outcome text, deleted integer, id uuid)
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
declare
  who uuid;
  seqs bigint[];
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
    and not exists (select from live_messages l where l.seq = m.seq and l.status = 'sending' and l.lease_until >= now())
    limit most);
  if cardinality(seqs) > 0 then
    -- A call under way keeps its message until its outcome is recorded or its lease is over.
    delete from live_messages l where l.seq = any (seqs) and (l.status <> 'sending' or l.lease_until < now());
    seqs := array(select u.seq from unnest(seqs) as u (seq)
      where not exists (select from live_messages l where l.seq = u.seq));
    delete from awaited_receipts a where a.seq = any (seqs);
    delete from lookups l where l.seq = any (seqs);
    delete from receipts r where r.message_seq = any (seqs);
    delete from attempt_log a where a.message_seq = any (seqs);
    delete from event_log e where e.message_seq = any (seqs);
    delete from message_results s where s.seq = any (seqs);
    delete from message_contents c where c.message_seq = any (seqs);
    delete from messages m where m.seq = any (seqs);
    return query select 'deleted', cardinality(seqs), who;
    return;
  end if;
  under_way := exists (select from messages m where m.tenant_id = who);
  if under_way then
    return query select 'draining', 0, who;
    return;
  end if;
  delete from receipts r where r.id = any (array(select x.id from receipts x where x.tenant_id = who limit most));
  -- No index leads from a tenant to its idempotency keys: one look over a partition takes all of them.
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
  delete from receipt_calls c where c.id = any (array(
    select x.id from receipt_calls x join provider_accounts p on p.id = x.account_id where p.tenant_id = who limit most));
  get diagnostics n = row_count;
  if n > 0 then
    return query select 'deleted', n, who;
    return;
  end if;
  delete from audit_log a where a.seq = any (array(select x.seq from audit_log x where x.tenant_id = who limit most));
  get diagnostics n = row_count;
  return query select case when n > 0 then 'deleted' else 'empty' end, n, who;
end $$;

grant execute on function purge_some(text, text, integer) to despatch_controller;
