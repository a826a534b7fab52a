import { expect, test } from 'vitest';
import { parseEnvironment } from '#core/platform/config/config.ts';
import { workerEnvironment } from './config.ts';

const { webhookDeliveries } = workerEnvironment;
/** Time of a lease that a worker needs after the call itself, to record it. */
const RECORD_MS = 2_000;

test.each([100, 666, 15_000, 30_000])(
  'the lease of webhook deliveries is long enough for calls with a deadline of %i ms',
  (ms) => {
    const env = { WEBHOOK_DEADLINE_MS: String(ms) };
    const { deadlineMs, leaseMs } = parseEnvironment({ webhookDeliveries }, env).webhookDeliveries;
    expect([deadlineMs, leaseMs >= 4 * deadlineMs + RECORD_MS]).toEqual([ms, true]);
  },
);
