-- Names of messages in a lane that wait for a call, in the order of `claim_due`; of no content that could make a look fail.
create or replace function due_seqs(for_tenant uuid, for_account uuid, most integer, ahead_ms integer) returns setof bigint
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select l.seq from live_messages l
  where l.tenant_id = for_tenant and l.account_id = for_account and l.status in ('queued', 'deferred')
    and l.due_at <= clock_timestamp() + make_interval(secs => ahead_ms / 1000.0)
  order by l.priority, l.due_at limit most
$$;

grant execute on function due_seqs(uuid, uuid, integer, integer) to despatch_worker;
