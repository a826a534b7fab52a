import type { AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import type { Logger } from './logger.ts';

/** Incremented when a field changes its meaning; fields may be added at any time. */
const VERSION = 1;

/**
 * Creates a trail that writes each entry as a log line, so that revocations, removals and purges are known outside the database:
 * after a restore to an earlier time, `deploy/restore/replay-audit.ts` repeats them.
 * @param log has level `info`, whatever the level of the process, because these lines are no diagnostics.
 */
export function createAuditTrail(log: Logger): AuditTrail {
  return (entry) => log.info({ event: 'audit', audit: { v: VERSION, ...entry } }, 'Audit');
}
