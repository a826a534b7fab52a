import { z } from 'zod';
import { FAILURE_CLASSES } from '#core/domain/sending/failure.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { ATTEMPT_OUTCOMES } from '#core/domain/sending/outcome.ts';
import type { AttemptRow } from '#core/store/messages/message-history.ts';
import { iso } from '../http/iso.ts';

export const Attempt = z
  .object({
    id: z.uuid(),
    number: z.int().min(1).max(INT32_MAX),
    providerId: z.uuid().nullable(),
    outcome: z
      .enum(ATTEMPT_OUTCOMES)
      .describe('`started`: under way. `not_started`: postponed, without a call.'),
    code: z
      .string()
      .nullable()
      .describe(
        'Why the provider did not accept it: a stable reason such as `dns`, `connect_refused`, `tls`, `timeout`, `http_503`, `unknown_recipient`; or why it was not called.',
      ),
    failure: z
      .object({ class: z.enum(FAILURE_CLASSES), code: z.string() })
      .nullable()
      .describe('Failure of a call that ended without acceptance.'),
    startedAt: z.iso.datetime(),
    endedAt: z.iso.datetime().nullable(),
    httpStatus: z.int().min(100).max(999).nullable(),
    providerCode: z.string().nullable(),
    providerMessage: z
      .string()
      .nullable()
      .describe("The provider's own text, or what happened to the connection if there was no answer."),
  })
  .meta({
    id: 'Attempt',
    description: 'One call to a provider.',
    examples: [
      {
        id: 'd2f1a0b9-8c7d-4e6f-a5b4-c3d2e1f0a9b8',
        number: 1,
        providerId: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10',
        outcome: 'accepted',
        code: null,
        failure: null,
        startedAt: '2026-01-15T09:30:00.048Z',
        endedAt: '2026-01-15T09:30:00.120Z',
        httpStatus: 201,
        providerCode: null,
        providerMessage: null,
      },
    ],
  });

export function toAttempt(row: AttemptRow): z.output<typeof Attempt> {
  return {
    id: row.id,
    number: row.number,
    providerId: row.account_id,
    outcome: row.outcome,
    code: row.reason,
    failure: row.failure && { class: row.failure.class, code: row.failure.code },
    startedAt: row.started_at.toISOString(),
    endedAt: iso(row.ended_at),
    httpStatus: row.http_status,
    providerCode: row.failure?.providerCode ?? null,
    providerMessage: row.failure?.providerMessage ?? null,
  };
}
