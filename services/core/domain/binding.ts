import type { ProviderAccountId, TenantId } from './ids.ts';

/** What a ciphertext belongs to. It decrypts under the same binding only, so a row's secret is of no use in another row. */
export type Binding = {
  readonly tenantId: TenantId;
  /** The row's id, such as a provider account's. */
  readonly subject: string;
  /** What the secret is for. */
  readonly purpose: string;
};

/** The secrets of a tenant's provider account. */
export function accountSecretBinding(tenantId: TenantId, accountId: ProviderAccountId | string): Binding {
  return { tenantId, subject: accountId, purpose: 'provider-secret' };
}

/** The secrets that sign what a webhook endpoint is sent, the present and the former one: their text, `whsec_` and all. */
export function webhookSecretBinding(tenantId: TenantId, endpointId: string): Binding {
  return { tenantId, subject: endpointId, purpose: 'webhook-secret' };
}

/** What a webhook endpoint is shown of the caller: `{"certificate": …, "key": …}`, both PEM. */
export function webhookCertificateBinding(tenantId: TenantId, endpointId: string): Binding {
  return { tenantId, subject: endpointId, purpose: 'webhook-client-certificate' };
}

/** A tenant's private key for `v1a`, as PKCS #8 in DER. */
export function webhookKeyBinding(tenantId: TenantId, keyId: string): Binding {
  return { tenantId, subject: keyId, purpose: 'webhook-signing-key' };
}

/** The text that keyrings bind to. @throws RangeError when a part holds the separator, which ids and our own words never do. */
export function bindingText({ tenantId, subject, purpose }: Binding): string {
  const parts = [tenantId, subject, purpose];
  if (parts.some((part) => part === '' || part.includes('|')))
    throw new RangeError('a binding has an empty or ambiguous part');
  return `despatch:v1|${parts.join('|')}`;
}
