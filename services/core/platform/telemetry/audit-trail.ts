import type { AuditTrail } from '#core/domain/audit-entry.ts';
import type { Logger } from './logger.ts';

/** Counted up when a field changes its meaning; fields may be added at any time. */
const VERSION = 1;

/**
 * Writes each entry as a line of the log, so that what was revoked, removed or purged is known outside the database too:
 * after a restore to an earlier time `deploy/restore/replay-audit.ts` does it again.
 * @param log Of level `info`, whatever the level of the process: these lines are no diagnosis.
 */
export function createAuditTrail(log: Logger): AuditTrail {
  return (entry) => log.info({ event: 'audit', audit: { v: VERSION, ...entry } }, 'Audit');
}
