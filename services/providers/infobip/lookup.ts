import { z } from 'zod';
import { lookUp, type LookupAnswer, type LookupDefinition, type LookupPace } from '../lookup.ts';
import { accountSecrets, authorization, vendorOrigin, type Account } from './account.ts';
import { isRejected, readError } from './answers.ts';
import { DUPLICATE, REQUEST_CODES } from './outcomes.ts';
import { DeliveryReport, whatBecameOf } from './receipts.ts';

/**
 * Each operation has a limit of its own, ten requests a second where they are lowest
 * (https://www.infobip.com/docs/developer-resources/api-fundamentals/rate-limits-and-throttling).
 */
const PACE: LookupPace = { everyMs: 2_000, atOnce: 2 };

const Logs = z.looseObject({ results: z.array(z.unknown()) });

/**
 * Asks the channel's log, https://www.infobip.com/docs/api/channels/sms/logs-and-status-reports: of 48 hours, and by the id
 * that a message was sent under, which is ours. The list of reports would give each of them out once and to nobody else.
 * @param logs path of the log.
 */
export function lookupInLogs(logs: string): LookupDefinition<Account['config'], Account['secrets']> {
  return {
    by: 'reference',
    pace: PACE,
    ask({ messageId, providerMessageId }, account, context) {
      const id = providerMessageId ?? messageId;
      const read = (body: unknown): LookupAnswer | undefined =>
        readLogs(body, id, providerMessageId === null);
      return lookUp(
        {
          request: {
            method: 'GET',
            url: `${context.origin(vendorOrigin(account))}${logs}?messageId=${encodeURIComponent(id)}`,
            isTenantHost: true,
            headers: authorization(account),
          },
          codes: REQUEST_CODES,
          readError,
          read,
          hidden: accountSecrets(account),
        },
        context,
      );
    },
  };
}

/**
 * @param isGuess no answer has named the id. Where a message was rejected under it, the same one may have gone out under its
 *   next id, so that the rejection says nothing.
 */
function readLogs(body: unknown, id: string, isGuess: boolean): LookupAnswer | undefined {
  const results = Logs.safeParse(body).data?.results;
  if (results === undefined) return undefined;
  const lines = results.flatMap((one) => DeliveryReport.safeParse(one).data ?? []);
  const found = lines.filter(
    ({ messageId, status }) =>
      messageId === id && status.id !== DUPLICATE && !(isGuess && isRejected(status)),
  );
  if (found.length > 0)
    return { kind: 'found', reports: found.map(whatBecameOf), ...(isGuess ? { providerMessageId: id } : {}) };
  // Lines that cannot be read are no absence.
  return lines.length === results.length ? { kind: 'not_found' } : undefined;
}
