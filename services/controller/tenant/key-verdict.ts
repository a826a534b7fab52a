import type { KeyringError } from '#core/platform/vault/keyring.ts';
import type { Verdict } from './tenant-findings.ts';

/** Tells in the status of a resource why a call to Vault failed. */
export function keyVerdict({ fault }: KeyringError): Verdict {
  return fault === 'refused'
    ? {
        ok: false,
        reason: 'VaultRefused',
        message: 'Vault refuses; the policy of the controller does not allow it',
      }
    : { ok: false, reason: 'VaultUnavailable', message: 'Vault gave no answer; it is tried again' };
}
