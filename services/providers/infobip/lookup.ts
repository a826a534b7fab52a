import { z } from 'zod';
import { lookUp, type LookupAnswer, type LookupDefinition, type LookupPace } from '../lookup.ts';
import { secretsToRedact, authorization, vendorOrigin, type Account } from './account.ts';
import { isRejected, readError } from './answers.ts';
import { DUPLICATE, REQUEST_CODES } from './outcomes.ts';
import { DeliveryReport, whatBecameOf } from './receipts.ts';

/**
 * The log of SMS takes 120 requests a minute, and sends read it too where an id is used up (`sendUnderOwnId`); each operation has
 * a limit of its own (https://www.infobip.com/docs/developer-resources/api-fundamentals/rate-limits-and-throttling).
 */
const PACE: LookupPace = { everyMs: 2_000, atOnce: 2 };

const Logs = z.looseObject({ results: z.array(z.unknown()) });

/**
 * Reads the channel's message log, https://www.infobip.com/docs/api/channels/sms/logs-and-status-reports: it covers 48
 * hours and is queried by the id that the message was sent under, which is our own. The list of delivery reports is not
 * used because it returns each report only once, to a single reader.
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
          hidden: secretsToRedact(account),
        },
        context,
      );
    },
  };
}

/**
 * @param isGuess no response has named the id. If a message was rejected under this id, the same message may have been sent
 * under its next id, so the rejection is not conclusive.
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
  // Unreadable lines do not prove that the message is absent.
  return lines.length === results.length ? { kind: 'not_found' } : undefined;
}
