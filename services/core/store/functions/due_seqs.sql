-- Returns the numbers of messages in a lane that wait for a call, in the order of `claim_due`. It reads no contents, so no
-- content can make it fail. `due_from`: as for `due_floor`.
create or replace function due_seqs(for_tenant uuid, for_account uuid, most integer, ahead_ms integer, due_from float8[])
returns setof bigint
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
  select x.seq
  from (values (0::smallint), (1::smallint), (2::smallint)) as p (priority),
  lateral (
    select l.seq, l.due_at from live_messages l
    where l.tenant_id = for_tenant and l.account_id = for_account and l.priority = p.priority
      and l.due_at >= due_floor(due_from, p.priority)
      and l.due_at <= statement_timestamp() + make_interval(secs => ahead_ms / 1000.0)
      and l.status in ('queued', 'deferred')
    order by l.due_at limit most
  ) x
  order by p.priority, x.due_at limit most
$$;

grant execute on function due_seqs(uuid, uuid, integer, integer, float8[]) to despatch_worker;
