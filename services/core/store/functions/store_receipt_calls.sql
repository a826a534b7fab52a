-- Stores receipt calls of any tenants in one commit, numbered by `ord`. Verdicts: stored, full (too many calls or bytes of the
-- account wait for a worker; concurrent calls do not see each other), gone (the account does not exist, or no longer has this
-- version of its URL). `counted`: the accounts whose waiting calls are counted; other accounts are never full.
create or replace function store_receipt_calls(batch json, counted uuid[], calls_max integer, bytes_max bigint)
returns table (ord integer, verdict text)
language sql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
  with call as materialized (
    select c.ord, c.account_id, c.method, c.receipt_version, c.query, c.headers, decode(c.body, 'base64') as body,
      c.traceparent, p.tenant_id, clock_timestamp() as at
    from json_to_recordset(batch) as c (ord integer, account_id uuid, method text, receipt_version integer, query text,
      headers jsonb, body text, traceparent text)
    -- `= any (array[…])` instead of `=`: for an equality of columns the planner may choose a join that reads the whole index.
    left join provider_accounts p on p.id = any (array[c.account_id]) and p.status <> 'deleted'
      and (p.receipt_version = c.receipt_version
        or p.receipt_version = c.receipt_version + 1 and p.receipt_grace_until > clock_timestamp())
  ), waiting as materialized (
    -- Reads no more of an account's calls than make it full.
    select a.account_id, count(w.bytes) as calls, coalesce(sum(w.bytes), 0) as bytes
    from unnest(counted) as a (account_id)
    left join lateral (
      select octet_length(r.body) as bytes from receipt_calls r where r.account_id = a.account_id limit calls_max
    ) w on true
    group by a.account_id
  ), judged as materialized (
    select c.*, case when c.tenant_id is null then 'gone'
      when w.calls + row_number() over own > calls_max or w.bytes + sum(octet_length(c.body)) over own > bytes_max then 'full'
      else 'stored' end as verdict
    from call c left join waiting w on w.account_id = c.account_id
    window own as (partition by c.account_id order by c.ord)
  ), stored as (
    insert into receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body, traceparent,
      received_at, due_at)
    select j.tenant_id, j.account_id, j.method, j.receipt_version, j.query, j.headers, j.body, j.traceparent, j.at, j.at
    from judged j where j.verdict = 'stored' order by j.ord
  )
  select j.ord, j.verdict from judged j order by j.ord
$$;

grant execute on function store_receipt_calls(json, uuid[], integer, bigint) to despatch_api;
