-- Accepts a batch that a client sent in one request: claims the idempotency key of the request, then does what `accept` does, and
-- stores the answer under the request's key. A transaction that holds a message's key never waits for a batch's key, so that the
-- lock order prevents deadlocks here too.
--
-- `callers`, `batch`, `keys`, `sweep_after_ms`: as in `accept`. `own`: {tenant_id, scope, fingerprint, draft} of the request's
-- key, null without one. `whole`: whether all messages must be accepted or none.
-- Verdicts: those of `accept`; `warned` only if the messages are stored. A request that was answered before gets a single row
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
  settled json;
  warnings json[];
  is_kept boolean;
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
    select json_agg(json_build_object('ord', a.ord, 'verdict', a.verdict, 'response', a.response,
        'retryAfter', a.retry_after, 'remaining', a.remaining) order by a.ord) filter (where a.ord is not null),
      array_agg(a.response) filter (where a.verdict = 'warned'),
      case when whole then bool_and(t.is_taken) else bool_or(t.is_taken) end
    into settled, warnings, is_kept
    from accept(callers, batch, keys, sweep_after_ms) a,
    lateral (select a.verdict = 'accepted' or a.verdict = 'warned' or a.verdict = 'replayed' and a.response is not null as is_taken) t;
    if not is_kept then
      raise exception 'nothing of the batch is to be stored' using errcode = 'DS002';
    end if;
    if own is not null then
      perform store_idempotent_response(array[own_scope], array[202::smallint],
        array[json_build_object('draft', own -> 'draft', 'verdicts', settled)], array[null::bytea]);
    end if;
  exception when sqlstate 'DS002' then
    null;
  end;
  if is_kept then
    return query select null::integer, 'warned', w, null::integer, null::integer from unnest(warnings) w;
  end if;
  return query
    select s.ord, s.verdict, s.response, s."retryAfter", s.remaining
    from json_to_recordset(settled) as s (ord integer, verdict text, response json, "retryAfter" integer, remaining integer);
end $$;

grant execute on function accept_batch(json, json, json, json, boolean, integer) to despatch_api;
