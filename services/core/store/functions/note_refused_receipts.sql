-- Records on the accounts that receipts were refused, from [{account_id, reason}]; of several the last. The same reason at most once
-- a minute per account and another one at most once a second, so that a flood does not keep the account's row busy. Accounts that
-- another transaction has locked are skipped: it may wait for messages that the caller has locked.
create or replace function note_refused_receipts(refused json) returns void
language plpgsql set search_path = despatch, pg_temp as $$
declare
  at_now timestamptz := clock_timestamp();
  due uuid[];
begin
  select array_agg(x.id) into due from (
    select p.id from provider_accounts p
    where p.id = any (array(select f.account_id from json_to_recordset(refused) as f (account_id uuid)))
      and (coalesce(p.receipt_refused_at, '-infinity') < at_now - interval '1 minute'
        or p.receipt_refused_at < at_now - interval '1 second' and exists (
          select from json_to_recordset(refused) as f (account_id uuid, reason text)
          where f.account_id = p.id and f.reason <> p.receipt_refused_reason))
    order by p.id for no key update skip locked) x;
  update provider_accounts p set receipt_refused_at = at_now, receipt_refused_reason = f.reason
  from (select distinct on (x.account_id) x.account_id, x.reason
    from rows from (json_to_recordset(refused) as (account_id uuid, reason text)) with ordinality as x (account_id, reason, nth)
    order by x.account_id, x.nth desc) f
  where p.id = f.account_id and p.id = any (due);
end $$;
