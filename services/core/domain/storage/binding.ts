import type { ProviderAccountId, TenantId } from './ids.ts';

/** The context of a ciphertext. It decrypts only under the same binding, so a secret copied to another row is useless. */
export type Binding = {
  readonly tenantId: TenantId;
  /** The row's id, such as a provider account's. */
  readonly subject: string;
  /** The purpose of the secret. */
  readonly purpose: string;
};

/** Returns the binding of a provider account's secrets. */
export function accountSecretBinding(tenantId: TenantId, accountId: ProviderAccountId | string): Binding {
  return { tenantId, subject: accountId, purpose: 'provider-secret' };
}

/**
 * Returns the binding of a webhook endpoint's current and previous signing secrets, encrypted as their text including `whsec_`.
 */
export function webhookSecretBinding(tenantId: TenantId, endpointId: string): Binding {
  return { tenantId, subject: endpointId, purpose: 'webhook-secret' };
}

/** Returns the binding of an endpoint's client certificate: `{"certificate": …, "key": …}`, both PEM. */
export function webhookCertificateBinding(tenantId: TenantId, endpointId: string): Binding {
  return { tenantId, subject: endpointId, purpose: 'webhook-client-certificate' };
}

/** Returns the binding of a tenant's private key for `v1a`, as PKCS #8 in DER. */
export function webhookKeyBinding(tenantId: TenantId, keyId: string): Binding {
  return { tenantId, subject: keyId, purpose: 'webhook-signing-key' };
}

/**
 * Returns the text that keyrings bind to.
 * @throws RangeError if a part is empty or contains the separator; ids and the fixed purposes never do.
 */
export function bindingText({ tenantId, subject, purpose }: Binding): string {
  const parts = [tenantId, subject, purpose];
  if (parts.some((part) => part === '' || part.includes('|')))
    throw new RangeError('a binding has an empty or ambiguous part');
  return `despatch:v1|${parts.join('|')}`;
}
