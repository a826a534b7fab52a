import type { Rerouted } from '../routing/failover.ts';
import type { Failure } from '../sending/failure.ts';
import { EVENT_SCHEMAS, type EventEnvelope } from './event-schemas.ts';
import type { StoredEvent } from './stored-event.ts';

/** Returns an event as tenants read it. It never contains a message's content or a secret, but does contain its recipient. */
export function toEnvelope({ seq, id, type, at, details, message }: StoredEvent): EventEnvelope {
  const own = details ?? {};
  const facts =
    message === null
      ? { ...own, seq }
      : {
          ...own,
          seq,
          sequence: message.sequence,
          test: message.test,
          messageId: message.id,
          externalId: message.externalId,
          channel: message.channel,
          to: message.to,
          category: message.category,
          metadata: message.metadata,
          tags: message.tags ?? [],
          attempt: message.attempt,
          providerId: message.accountId,
          provider: message.provider,
        };
  const given = {
    ...ABSENT,
    ...facts,
    ...reroutedOf(own, message?.accountId),
    failure: failureOf(own['failure']),
  };
  // The schema of the type drops the fields that are not part of it.
  return EVENT_SCHEMAS[type].parse({ id, type, timestamp: at.toISOString(), data: given });
}

/** Defaults for fields that an event's row may omit. */
const ABSENT = { providerStatus: null, reason: null, address: null, messageId: null, expiresAt: null };

/**
 * Returns the accounts of a failover. After a wait the event's row names the previous account; after a refusal it is the called
 * one.
 */
function reroutedOf(own: NonNullable<StoredEvent['details']>, called: string | null = null) {
  const known = own['rerouted'] as Rerouted | null | undefined;
  if (known == null) return {};
  const { why = 'refused', from = called } = own;
  return { why, fromProviderId: from, toProviderId: known.accountId, routeVersion: known.version };
}

function failureOf(stored: unknown) {
  const known = stored as Failure | null | undefined;
  if (known === null || known === undefined) return null;
  return {
    class: known.class,
    code: known.code,
    providerCode: known.providerCode ?? null,
    providerMessage: known.providerMessage ?? null,
  };
}
