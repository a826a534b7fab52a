-- Returns ciphertexts under versions of the tenant's key other than `latest`, and what each is bound to, in an order of their own
-- and after the given one. They are useless without Vault.
create or replace function outdated_ciphertexts(of_tenant uuid, latest integer, most integer, after_subject uuid,
  after_purpose text, after_ciphertext text) returns table (subject uuid, purpose text, ciphertext text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select distinct o.subject, o.purpose, o.text from (
    select p.id as subject, 'provider-secret' as purpose, c.text
    from provider_accounts p cross join lateral (values (p.ciphertext), (p.previous_ciphertext)) as c (text)
    where p.tenant_id = of_tenant
    union all
    select w.id, c.purpose, c.text
    from webhook_endpoints w cross join lateral (values ('webhook-secret', w.secret), ('webhook-secret', w.previous_secret),
      ('webhook-client-certificate', w.client_certificate)) as c (purpose, text)
    where w.tenant_id = of_tenant
    union all
    select k.id, 'webhook-signing-key', k.ciphertext from webhook_keys k where k.tenant_id = of_tenant
  ) o
  where o.text like 'vault:v%' and o.text not like 'vault:v' || latest || ':%'
    and (after_subject is null or (o.subject, o.purpose, o.text) > (after_subject, after_purpose, after_ciphertext))
  order by o.subject, o.purpose, o.text limit most
$$;

grant execute on function outdated_ciphertexts(uuid, integer, integer, uuid, text, text) to despatch_controller;
