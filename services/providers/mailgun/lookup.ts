import { z } from 'zod';
import { lookUp, type LookupAnswer, type LookupDefinition, type LookupPace } from '../lookup.ts';
import { authorization, secretsToRedact, vendorOrigin, type Account } from './account.ts';
import { readError } from './errors.ts';
import { Event, whatBecameOf, withoutBrackets } from './receipts.ts';

/** A mail to one recipient has few events, and a longer page could exceed the size up to which an answer is read. */
const EVENTS_MAX = 25;

/**
 * Mailgun documents no limit for its events API; another of its APIs allows 300 requests a minute. This is one twenty-fifth
 * of that.
 */
const PACE: LookupPace = { everyMs: 5_000, atOnce: 1 };

const Events = z.looseObject({ items: z.array(z.unknown()) });

/**
 * https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/events/get-v3-domain_name-events: events are
 * kept for at least three days and are found by Mailgun's id of a mail. A sending key may not read them. Mailgun calls this
 * API deprecated in favor of its Logs API and names no date for its end.
 */
export const mailgunLookup: LookupDefinition<Account['config'], Account['secrets']> = {
  by: 'id',
  pace: PACE,
  ask({ providerMessageId }, account, context) {
    const id = providerMessageId ?? '';
    const query = new URLSearchParams({
      'message-id': id,
      ascending: 'no',
      limit: String(EVENTS_MAX),
    });
    return lookUp(
      {
        request: {
          method: 'GET',
          url: `${context.origin(vendorOrigin(account))}/v3/${account.config.domain}/events?${query.toString()}`,
          headers: authorization(account),
        },
        codes: {},
        readError,
        read: (body) => readEvents(body, id),
        hidden: secretsToRedact(account),
      },
      context,
    );
  },
};

/** Keeps only the events with this id, in case Mailgun ignores the filter. */
function readEvents(body: unknown, id: string): LookupAnswer | undefined {
  const items = Events.safeParse(body).data?.items;
  if (items === undefined) return undefined;
  const events = items.flatMap((one) => Event.safeParse(one).data ?? []);
  const found = events.filter(({ message }) => withoutBrackets(message?.headers['message-id'] ?? '') === id);
  return found.length === 0 ? { kind: 'not_found' } : { kind: 'found', reports: found.map(whatBecameOf) };
}
