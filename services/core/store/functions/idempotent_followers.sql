-- Once the requests of a batch have their verdicts: gives back the idempotency keys of those that were refused, and
-- settles the requests whose key an earlier one of the batch has as that one was settled. `ords`, `verdicts`, `retries`:
-- what was settled, and how.
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
  -- A winner that was not settled here was answered from what is stored, and so were all that followed it.
  from request r join settled s on s.ord = r.winner where r.ord <> r.winner
$$;
