-- Drops the replaced ciphertexts that have been kept long enough. Returns the number of rows.
create or replace function forget_replaced_secrets() returns integer
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  accounts integer;
begin
  update provider_accounts set previous_ciphertext = null, previous_until = null where previous_until <= now();
  get diagnostics accounts = row_count;
  return accounts;
end $$;

grant execute on function forget_replaced_secrets() to despatch_worker;
