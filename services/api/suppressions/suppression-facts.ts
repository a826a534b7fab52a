import type { AuditFacts } from '#core/domain/audit-entry.ts';
import type { Suppression } from '#core/domain/suppression.ts';

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
