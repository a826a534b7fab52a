import { z } from 'zod';
import { EVENT_SOURCES, MESSAGE_EVENT_TYPES } from '#core/domain/message/message-event.ts';
import type { MessageHistoryRow } from '#core/store/messages/message-history.ts';
import type { MessageKey } from '#core/store/messages/messages.ts';
import { PROVIDER_STATUS_MAX } from '#providers/receipt.ts';

export const Event = z
  .object({
    id: z.uuid(),
    type: z.enum(MESSAGE_EVENT_TYPES),
    at: z.iso.datetime(),
    source: z.enum(EVENT_SOURCES).describe('Source of the event.'),
    applied: z.boolean().describe('False for a receipt that arrived too late to change anything.'),
    verified: z
      .boolean()
      .nullable()
      .describe(
        "For a provider's report: true if it certainly comes from the provider: its signature was verified, or the provider was asked about the message; false if only the secret `receiptUrl` authenticates it. Null for other events.",
      ),
    providerStatus: z
      .string()
      .max(PROVIDER_STATUS_MAX)
      .nullable()
      .describe(
        "For a provider's report: the provider's own status, or `found` if it knows the message and has no status for it. Null for other events.",
      ),
  })
  .meta({
    id: 'Event',
    description: 'An event of a message.',
    examples: [
      {
        id: 'e3a2b1c0-9d8e-4f7a-b6c5-d4e3f2a1b0c9',
        type: 'message.delivered',
        at: '2026-01-15T09:30:02.480Z',
        source: 'receipt',
        applied: true,
        verified: true,
        providerStatus: 'delivered',
      },
    ],
  });

export function toEvent(row: MessageHistoryRow & { readonly id: string }): z.output<typeof Event> {
  return {
    id: row.id,
    type: row.type,
    at: row.at.toISOString(),
    source: row.source,
    applied: row.applied,
    verified: row.verified,
    providerStatus: row.provider_status,
  };
}

/** Returns the event of the acceptance: it is not stored, because the message's row contains it. */
export function acceptedEvent({ enqueued_at, scheduled_at }: MessageKey): MessageHistoryRow {
  return {
    event_seq: 0,
    type: scheduled_at === null ? 'message.queued' : 'message.scheduled',
    at: enqueued_at,
    source: 'api',
    applied: true,
    verified: null,
    provider_status: null,
  };
}
