-- Claims the idempotency keys of a batch for this transaction, and returns the requests that are not to be admitted: those
-- answered from stored data (`replayed`, or `mismatch` if the key was used for a different request), and those whose key an
-- earlier request of this batch has (no verdict yet). If a key occurs twice in a batch, its first request wins.
create or replace function idempotent_answers(keys json) returns table (ord integer, verdict text, response json)
language sql set search_path = despatch, pg_temp as $$
  with request as materialized (
    select r.ord, r.tenant_id, decode(r.scope, 'hex') as scope, decode(r.fingerprint, 'hex') as fingerprint, r.response,
      row_number() over (partition by r.scope order by r.ord) = 1 as is_first
    from json_to_recordset(keys) as r (ord integer, tenant_id uuid, scope text, fingerprint text, response json)
  ), taken as materialized (
    select c.scope, c.fingerprint, c.response
    from (
      select array_agg(r.scope order by r.scope) as scopes, array_agg(r.tenant_id order by r.scope) as tenants,
        array_agg(r.fingerprint order by r.scope) as fingerprints, array_agg(r.response order by r.scope) as responses
      from request r where r.is_first
    ) f, claim_idempotency(f.scopes, f.tenants, f.fingerprints, 202::smallint, f.responses) c
  )
  select r.ord,
    case when t.scope is null then null when t.fingerprint = r.fingerprint then 'replayed' else 'mismatch' end,
    t.response
  from request r left join taken t on t.scope = r.scope
  where t.scope is not null or not r.is_first
$$;
