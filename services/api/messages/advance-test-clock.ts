import { z } from 'zod';
import { AppError, validationFailed } from '#core/domain/fault/app-error.ts';
import { DAY_MS, parseDuration } from '#core/domain/text/duration.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { advanceTestClock } from '#core/store/messages/test-clock.ts';
import type { PublishNotice } from '#core/domain/tenant/notice.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { inSlot, type SharedSlots } from '../http/admission/shared-slots.ts';

export type AdvanceTestClockDeps = {
  readonly sql: Sql;
  /** Slots of the connection pool on which messages are accepted. */
  readonly slots: SharedSlots;
  readonly notify: PublishNotice;
};

const ADVANCE_DAYS_MAX = 366;
/** Limit for the sum of all advances. */
const AHEAD_DAYS_MAX = 3_660;
/** The most messages that one call moves, so that its single commit stays short. */
const MOVED_MAX = 10_000;

const AdvanceTestClock = z
  .object({
    advance: z
      .string()
      .max(40)
      .refine((text) => parseDuration(text) !== undefined, {
        error: 'Must be a duration such as PT72H, P3D or 72h',
        params: { rule: 'duration' },
      })
      .refine((text) => (parseDuration(text) ?? 0) <= ADVANCE_DAYS_MAX * DAY_MS, {
        error: `Must be at most ${ADVANCE_DAYS_MAX} days`,
        params: { rule: 'max' },
      })
      .describe(
        'Time to add: an ISO 8601 duration of seconds up to weeks, or a number with `s`, `m`, `h` or `d`.',
      ),
  })
  .meta({
    id: 'AdvanceTestClock',
    description: 'Time by which the clock of test messages moves ahead.',
    examples: [{ advance: 'PT72H' }],
  });

const TestClock = z
  .object({
    now: z.iso.datetime().describe('The new time of the clock of test messages.'),
    moved: z.int().min(0).max(MOVED_MAX).describe('Number of test messages whose wait became shorter.'),
    ...warningsField,
  })
  .meta({
    id: 'TestClock',
    description: "The clock of a tenant's test messages.",
    examples: [{ now: '2026-01-18T09:30:00.000Z', moved: 12 }],
  });

/** `POST /v1/messages/test-clock`. It never moves live messages: its SQL function checks that each row is a test. */
export function advanceTestClockRoute({ sql, slots, notify }: AdvanceTestClockDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/messages/test-clock',
    tag: 'Messages',
    operation: 'advanceTestClock',
    summary: 'Move the clock of test messages ahead',
    description:
      "Moves the clock of the tenant's test messages ahead, for test keys only: scheduled messages, retries, expiries and the wait for receipts come sooner by that time. Each message advances as far as its next step, which happens now; later steps count from there. `sendAt` and `expiresAt` of new test messages refer to this clock. Live messages never change. If more than 10,000 test messages wait, including those that wait for a receipt, it returns 409 `invalid_state`.",
    auth: { kind: 'key', scope: 'messages:send', countsChanges: true },
    body: AdvanceTestClock,
    response: TestClock,
    errors: ['invalid_state'],
    async handler({ caller, body, gone }) {
      if (caller.key.mode !== 'test') {
        throw new AppError('insufficient_scope', {
          message: 'Only a test key moves the clock of test messages',
        });
      }
      const { id: tenantId } = caller.tenant;
      const advance = async (tx: TransactionSql) => {
        const advanced = await advanceTestClock(tx, parseDuration(body.advance) ?? 0, MOVED_MAX);
        if (advanced === undefined) {
          throw new AppError('invalid_state', {
            message: `More than ${MOVED_MAX} test messages wait: cancel some, or let those that wait for a receipt end by themselves`,
          });
        }
        if (advanced.aheadMs > AHEAD_DAYS_MAX * DAY_MS) {
          const message = `The clock can be ${AHEAD_DAYS_MAX} days ahead at most`;
          throw validationFailed({ field: 'advance', rule: 'max', message });
        }
        return advanced;
      };
      const { aheadMs, moved } = await inSlot(
        slots,
        tenantId,
        () => withTenant(sql, tenantId, advance),
        gone(),
      );
      // Workers look for due messages at once. A key may call this thousands of times a minute, so no cached copy of the tenant
      // is dropped.
      if (moved > 0) notify('clock', { tenantId });
      return { body: { now: new Date(Date.now() + aheadMs).toISOString(), moved } };
    },
  });
}
