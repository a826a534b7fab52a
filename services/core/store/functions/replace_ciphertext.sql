-- Puts the same secret under a newer version in the old one's place; nothing where the old one has been replaced since.
-- The account's version stays: what workers hold decrypted is still right.
create or replace function replace_ciphertext(of_tenant uuid, of_account uuid, replaced text, replacement text) returns boolean
language sql security definer set search_path = despatch, pg_temp as $$
  with moved as (
    update provider_accounts p set
      ciphertext = case when p.ciphertext = replaced then replacement else p.ciphertext end,
      previous_ciphertext = case when p.previous_ciphertext = replaced then replacement else p.previous_ciphertext end
    where p.id = of_account and p.tenant_id = of_tenant and replaced in (p.ciphertext, p.previous_ciphertext)
    returning 1
  )
  select exists (select from moved)
$$;

grant execute on function replace_ciphertext(uuid, uuid, text, text) to despatch_controller;
