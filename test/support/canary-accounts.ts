import { createPrivateKey, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import type { ProviderKind } from '#providers/registry.gen.ts';
import type { Canary } from './canaries.ts';
import { CATALOG_ACCOUNTS } from './catalog-accounts.ts';
import { VENDOR_ACCOUNTS } from './vendor-accounts.ts';

export type CanaryAccount = {
  readonly provider: ProviderKind;
  readonly publicConfig: Readonly<Record<string, unknown>>;
  /** The secret that the account is created with, and the one that replaces it. */
  readonly former: Readonly<Record<string, string>>;
  readonly present: Readonly<Record<string, string>>;
  readonly canaries: readonly Canary[];
};

/** Returns an account of the provider with every secret that it can have, each of which occurs nowhere else. */
export function canaryAccount(provider: ProviderKind, settings: object = {}): CanaryAccount {
  const { publicConfig, secretConfig } = CATALOG_ACCOUNTS[provider];
  return canaryAccountOf(
    provider,
    { ...publicConfig, ...VENDOR_ACCOUNTS[provider]?.publicConfig, ...settings },
    secretConfig,
  );
}

/** Returns an account whose secrets have the form of the given ones. @param like one secret of each kind. */
export function canaryAccountOf(
  provider: ProviderKind,
  publicConfig: Readonly<Record<string, unknown>>,
  like: Readonly<Record<string, string>>,
): CanaryAccount {
  const former = freshSecrets(like);
  const present = freshSecrets(like);
  const canaries = [former, present].flatMap((secrets, n) =>
    Object.entries(secrets).flatMap(([field, value]) =>
      partsOf(value).map((secret) => ({
        name: `${provider} ${field} ${n === 0 ? 'former' : 'present'}`,
        secret,
      })),
    ),
  );
  return { provider, publicConfig, former, present, canaries };
}

function freshSecrets(like: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(like).map(([field, value]) => [field, freshLike(value)]));
}

function freshLike(value: string): string {
  if (value.startsWith('{')) {
    const account = JSON.parse(value) as Record<string, string>;
    return JSON.stringify({ ...account, private_key: freshLike(account['private_key'] ?? '') });
  }
  if (value.startsWith('-----')) return freshKey(value);
  if (value.startsWith('whsec_')) return `whsec_${randomBytes(24).toString('base64')}`;
  if (value.startsWith('SG.'))
    return `SG.${randomBytes(16).toString('base64url')}.${randomBytes(32).toString('base64url')}`;
  if (/^[0-9a-f]{32}$/.test(value)) return randomBytes(16).toString('hex');
  if (/^[0-9a-f]{8}-/.test(value)) return randomUUID();
  return `${value.slice(0, 3)}${randomBytes(24).toString('hex')}`;
}

function freshKey(like: string): string {
  const isRsa = createPrivateKey(like).asymmetricKeyType === 'rsa';
  const { privateKey } = isRsa
    ? generateKeyPairSync('rsa', { modulusLength: 2_048 })
    : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}

/** Returns the texts to search for: of a PEM key the lines after the first, which begins like that of every key. */
function partsOf(value: string): string[] {
  const lines = value.split(/\\n|\n/).filter((line) => /^[A-Za-z0-9+/]{48,64}$/.test(line));
  return value.includes('-----BEGIN') ? lines.slice(1) : [value];
}
