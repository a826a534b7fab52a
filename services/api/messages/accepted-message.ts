import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { SMS_ENCODINGS } from '#core/domain/message/segments.ts';
import { warningsField } from '../http/routes/request-warnings.ts';

/** The example of an accepted message, for a single send, a batch and a replay. */
export const ACCEPTED_EXAMPLE = {
  id: 'b7e23ec2-9f0a-4b1c-8d2e-3f4a5b6c7d8e',
  status: 'queued',
  channel: 'sms',
  to: '+15550000001',
  enqueuedAt: '2026-01-15T09:30:00.000Z',
  segments: 1,
  encoding: 'GSM-7',
} as const;

export const AcceptedMessage = z
  .object({
    id: z.uuid(),
    status: z.enum(['queued', 'scheduled']).describe('`scheduled` with a `sendAt` in the future.'),
    channel: z.enum(CHANNELS),
    to: z.string().describe('Echo of the recipient.'),
    enqueuedAt: z.iso.datetime(),
    scheduledAt: z.iso
      .datetime()
      .optional()
      .describe('Only for a `scheduled` message: when it will be sent.'),
    segments: z.int().min(1).max(255).optional().describe('Only for `sms`.'),
    encoding: z.enum(SMS_ENCODINGS).optional().describe('Only for `sms`.'),
    test: z.boolean().optional().describe('True with a test key: no provider is called. Else absent.'),
    ...warningsField,
  })
  .meta({
    id: 'AcceptedMessage',
    description: 'A message that is accepted and stored.',
    examples: [ACCEPTED_EXAMPLE],
  });
