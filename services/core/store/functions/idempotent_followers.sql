-- Once the requests of a batch have their verdicts: gives back the idempotency keys of those that were refused, and
-- settles the requests whose key an earlier one of the batch has as that one was settled.
create or replace function idempotent_followers(keys json, verdicts text[], retries integer[])
returns table (ord integer, verdict text, response json, retry_after integer)
language sql set search_path = despatch, pg_temp as $$
  with request as materialized (
    select r.ord, r.scope, r.fingerprint, r.response, first_value(r.ord) over w as winner,
      first_value(r.fingerprint) over w as won_fingerprint, r.ord <> first_value(r.ord) over w as is_follower
    from json_to_recordset(keys) as r (ord integer, scope text, fingerprint text, response json)
    window w as (partition by r.scope order by r.ord)
  ), released as (
    delete from idempotency_keys k
    where k.scope = any (array(select decode(r.scope, 'hex') from request r where not r.is_follower and verdicts[r.ord] <> 'accepted'))
      and k.generation in (idempotency_generation(clock_timestamp()), idempotency_generation(clock_timestamp()) - 7)
  )
  select r.ord,
    case when verdicts[r.winner] <> 'accepted' then verdicts[r.winner]
      when r.fingerprint = r.won_fingerprint then 'replayed' else 'mismatch' end,
    case when verdicts[r.winner] = 'accepted' then (select w.response from request w where w.ord = r.winner) end,
    case when verdicts[r.winner] <> 'accepted' then retries[r.winner] end
  from request r
  -- A winner without a verdict of its own was answered from what is stored, and so were all that followed it.
  where r.is_follower and verdicts[r.winner] is not null
$$;
