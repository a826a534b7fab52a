import type { AuditFacts } from '#core/domain/audit-entry.ts';
import type { Suppression } from '#core/domain/suppression.ts';

/** What a replay makes the entry of again. Never the address: the log has these facts. */
export function factsOf({ channel, reason, scope, expiresAt }: Suppression, key: Buffer): AuditFacts {
  return {
    channel,
    addressKey: key.toString('hex'),
    reason,
    scope,
    expiresAt: expiresAt?.toISOString() ?? null,
  };
}
