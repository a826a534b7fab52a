-- Runs when the requests of a batch have their verdicts: releases the idempotency keys of refused requests, and gives requests
-- whose key an earlier request of the batch has the verdict of that request. `ords`, `verdicts`, `retries`: the verdicts so far.
create or replace function idempotent_followers(keys json, ords integer[], verdicts text[], retries integer[])
returns table (ord integer, verdict text, response json, retry_after integer)
language sql set search_path = despatch, pg_temp as $$
  with settled as materialized (
    select s.ord, s.verdict, s.retry_after from unnest(ords, verdicts, retries) as s (ord, verdict, retry_after)
  ), request as materialized (
    select r.ord, r.scope, r.fingerprint, r.response, first_value(r.ord) over w as winner,
      first_value(r.fingerprint) over w as won_fingerprint, first_value(r.response) over w as won_response
    from json_to_recordset(keys) as r (ord integer, scope text, fingerprint text, response json)
    window w as (partition by r.scope order by r.ord)
  ), released as (
    delete from idempotency_keys k
    where k.scope = any (array(
        select decode(r.scope, 'hex') from request r join settled s on s.ord = r.ord where r.ord = r.winner and s.verdict <> 'accepted'))
      and k.generation in (idempotency_generation(clock_timestamp()), idempotency_generation(clock_timestamp()) - 7)
  )
  select r.ord,
    case when s.verdict <> 'accepted' then s.verdict when r.fingerprint = r.won_fingerprint then 'replayed' else 'mismatch' end,
    case when s.verdict = 'accepted' then r.won_response end,
    case when s.verdict <> 'accepted' then s.retry_after end
  -- If the winner has no verdict here, it was answered from stored data, and so were the requests that follow it.
  from request r join settled s on s.ord = r.winner where r.ord <> r.winner
$$;
