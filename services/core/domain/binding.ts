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

/** The text that keyrings bind to. @throws RangeError when a part holds the separator, which ids and our own words never do. */
export function bindingText({ tenantId, subject, purpose }: Binding): string {
  const parts = [tenantId, subject, purpose];
  if (parts.some((part) => part === '' || part.includes('|')))
    throw new RangeError('a binding has an empty or ambiguous part');
  return `despatch:v1|${parts.join('|')}`;
}
