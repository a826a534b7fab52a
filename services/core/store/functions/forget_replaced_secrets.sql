-- Deletes replaced ciphertexts that have been kept long enough, and public keys that no longer sign. Returns the number of rows. An
-- account's stays, for up to three days, while a receipt call is stored that arrived while it was valid and was not refused: after
-- an outage such a call is read hours later.
create or replace function forget_replaced_secrets() returns integer
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
declare
  accounts integer;
  endpoints integer;
  keys integer;
begin
  -- A transaction that has one row locked may wait for another one, so locked rows are left to the next call.
  update provider_accounts set previous_ciphertext = null, previous_until = null
  where id = any (array(
    select p.id from provider_accounts p
    where p.previous_until <= now() and (p.previous_until <= now() - interval '3 days'
      or not exists (select from receipt_calls c where c.account_id = p.id and c.received_at < p.previous_until
        and not c.refused))
    for no key update skip locked));
  get diagnostics accounts = row_count;
  update webhook_endpoints set previous_secret = null, previous_until = null
  where id = any (array(select w.id from webhook_endpoints w where w.previous_until <= now() for no key update skip locked));
  get diagnostics endpoints = row_count;
  update webhook_keys k set ciphertext = null where k.shown_until is not null and k.ciphertext is not null
    and exists (select from webhook_keys n where n.tenant_id = k.tenant_id and n.signs_from > k.signs_from and n.signs_from <= now());
  delete from webhook_keys where shown_until <= now();
  get diagnostics keys = row_count;
  return accounts + endpoints + keys;
end $$;

grant execute on function forget_replaced_secrets() to despatch_worker;
