-- Locks the live row of a message of the transaction's tenant and returns its state; every move of the message locks the row too.
-- No row if the message is not live. `is_due`: its instant has come, by this server's clock.
create or replace function lock_schedule(of_seq bigint)
returns table (status text, send_at timestamptz, expires_at timestamptz, is_due boolean, now_at timestamptz)
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
begin
  return query
    with live as materialized (
      select l.* from live_messages l where l.seq = of_seq and l.tenant_id = current_tenant() for update
    )
    select l.status, l.next_attempt_at, l.expires_at, l.next_attempt_at <= c.now_at, c.now_at
    -- After the lock, because acquiring it may take time.
    from live l cross join lateral (select clock_timestamp() as now_at where l.seq is not null) c;
end $$;

grant execute on function lock_schedule(bigint) to despatch_api;
