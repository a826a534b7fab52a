-- Replaces a ciphertext by one of the same secret under a newer key version; does nothing if the old ciphertext was replaced
-- meanwhile. Does not change the version of the account or endpoint, because what workers have decrypted is still right.
create or replace function replace_ciphertext(of_tenant uuid, of_subject uuid, of_purpose text, replaced text, replacement text)
returns boolean
language sql security definer set search_path = despatch, pg_temp as $$
  with of_account as (
    update provider_accounts p set
      ciphertext = case when p.ciphertext = replaced then replacement else p.ciphertext end,
      previous_ciphertext = case when p.previous_ciphertext = replaced then replacement else p.previous_ciphertext end
    where of_purpose = 'provider-secret' and p.id = of_subject and p.tenant_id = of_tenant
      and replaced in (p.ciphertext, p.previous_ciphertext)
    returning 1
  ), of_endpoint as (
    update webhook_endpoints w set
      secret = case when w.secret = replaced then replacement else w.secret end,
      previous_secret = case when w.previous_secret = replaced then replacement else w.previous_secret end
    where of_purpose = 'webhook-secret' and w.id = of_subject and w.tenant_id = of_tenant
      and replaced in (w.secret, w.previous_secret)
    returning 1
  ), of_certificate as (
    update webhook_endpoints w set client_certificate = replacement
    where of_purpose = 'webhook-client-certificate' and w.id = of_subject and w.tenant_id = of_tenant
      and w.client_certificate = replaced
    returning 1
  ), of_key as (
    update webhook_keys k set ciphertext = replacement
    where of_purpose = 'webhook-signing-key' and k.id = of_subject and k.tenant_id = of_tenant and k.ciphertext = replaced
    returning 1
  )
  select exists (select from of_account union all select from of_endpoint union all select from of_certificate
    union all select from of_key)
$$;

grant execute on function replace_ciphertext(uuid, uuid, text, text, text) to despatch_controller;
