-- Returns the recipients of messages, from which the worker computes address keys for suppressions; only it can. Test messages
-- are left out, because they say nothing about real recipients.
create or replace function recipients_of(seqs bigint[], days date[])
returns table (seq bigint, message_id uuid, tenant_id uuid, channel text, address text)
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
begin
  return query
    select m.seq, m.id, m.tenant_id, m.channel, coalesce(m.address, m.recipient)
    from unnest(seqs, days) as u (seq, day), lateral (
      select * from messages x where x.seq = u.seq and x.purge_on = u.day and not x.test) m;
end $$;

grant execute on function recipients_of(bigint[], date[]) to despatch_worker;
