-- Accepts a batch that a client sent in one request: claims the idempotency key of the request, then does what `accept` does, and
-- stores the answer under the request's key. A transaction that holds a message's key never waits for a batch's key, so that the
-- lock order prevents deadlocks here too.
--
-- `callers`, `batch`, `keys`, `sweep_after_ms`: as in `accept`. `own`: {tenant_id, scope, fingerprint, draft} of the request's
-- key, null without one. `whole`: whether all messages must be accepted or none.
-- Verdicts: those of `accept`; `warned` only if messages are stored. A request that was answered before gets a single row
-- with ord 0: replayed, with the stored draft and verdicts, or mismatch. If nothing was accepted or replayed, or not everything
-- of a batch that must be whole, the transaction leaves nothing behind, keys included; the verdicts say what each message would
-- have got.
create or replace function accept_batch(callers json, batch json, keys json, own json, whole boolean, sweep_after_ms integer)
returns table (ord integer, verdict text, response json, retry_after integer, remaining integer)
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  own_scope bytea := decode(own ->> 'scope', 'hex');
  earlier record;
  settled record;
begin
  begin
    if own is not null then
      select c.fingerprint = decode(own ->> 'fingerprint', 'hex') as is_same, c.response into earlier
      from claim_idempotency(array[own_scope], array[(own ->> 'tenant_id')::uuid], array[decode(own ->> 'fingerprint', 'hex')]) c;
      if found then
        return query select 0, case when earlier.is_same then 'replayed' else 'mismatch' end,
          case when earlier.is_same then earlier.response end, null::integer, null::integer;
        return;
      end if;
    end if;
    select array_agg(a.ord) as ords, array_agg(a.verdict) as verdicts, array_agg(a.response) as responses,
      array_agg(a.retry_after) as retries, array_agg(a.remaining) as remainings,
      case when whole then bool_and(t.is_taken) else bool_or(t.is_taken and a.ord is not null) end as is_kept
    into settled
    from accept(callers, batch, keys, sweep_after_ms) a,
    lateral (select a.verdict = 'accepted' or a.verdict = 'warned' or a.verdict = 'replayed' and a.response is not null as is_taken) t;
    if not settled.is_kept then
      raise exception 'nothing of the batch is to be stored' using errcode = 'DS002';
    end if;
    if own is not null then
      perform store_idempotent_response(array[own_scope], array[202::smallint], array[json_build_object('draft', own -> 'draft', 'verdicts', (
        select json_agg(json_build_object('ord', s.ord, 'verdict', s.verdict, 'response', s.response,
            'retryAfter', s.retry_after, 'remaining', s.remaining) order by s.ord)
        from unnest(settled.ords, settled.verdicts, settled.responses, settled.retries, settled.remainings)
          as s (ord, verdict, response, retry_after, remaining)
        where s.ord is not null))], array[null::bytea]);
    end if;
  exception when sqlstate 'DS002' then
    null;
  end;
  return query
    select s.ord, s.verdict, s.response, s.retry_after, s.remaining
    from unnest(settled.ords, settled.verdicts, settled.responses, settled.retries, settled.remainings)
      as s (ord, verdict, response, retry_after, remaining)
    where s.ord is not null or settled.is_kept;
end $$;

grant execute on function accept_batch(json, json, json, json, boolean, integer) to despatch_api;
