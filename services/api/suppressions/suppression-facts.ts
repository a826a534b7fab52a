import type { AuditFacts } from '#core/domain/tenant/audit-entry.ts';
import { maskRecipient } from '#core/domain/recipient/mask-recipient.ts';
import type { Suppression } from '#core/domain/recipient/suppression.ts';

/**
 * Returns the facts from which a replay restores the entry. They never include the address, because the log contains them.
 */
export function factsOf({ channel, reason, scope, expiresAt }: Suppression, key: Buffer): AuditFacts {
  return {
    channel,
    addressKey: key.toString('hex'),
    reason,
    scope,
    expiresAt: expiresAt?.toISOString() ?? null,
  };
}

/**
 * Returns the name of the entry in the audit log, which outlives the entry: enough of the address to recognize a known one. Null if
 * only its hash is stored.
 */
export function nameOf({ channel, address }: Suppression): string | null {
  return address === null ? null : maskRecipient(channel, address);
}
