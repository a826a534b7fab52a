import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { EndpointHealth } from '#core/domain/webhooks/endpoint-state.ts';
import type { WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import { createEndpointWatch, type EndedCall } from './endpoint-watch.ts';

const FINE: EndpointHealth = {
  status: 'active',
  statusReason: null,
  failures: 0,
  failingSince: null,
  callAt: null,
};
const SUCCESS: EndedCall = { succeeded: true, status: 200, isProbe: false };
const FAILURE: EndedCall = { succeeded: false, status: 500, isProbe: false };
/** Postgres's time: an hour from this process's. */
const AT = Date.now() + 3_600_000;

/** Creates a watch over a store that answers one query at a time, when the test lets it. */
function setup() {
  const asked: (() => void)[] = [];
  const failed: unknown[] = [];
  const known: boolean[] = [];
  let now = FINE;
  const watch = createEndpointWatch({
    store: {
      changeEndpoint: async (_id, _version, decide) => {
        await new Promise<void>((resolve) => asked.push(resolve));
        now = decide(now, AT) ?? now;
        return now;
      },
    },
    onStored: (_endpoint, failures) => void known.push(failures !== undefined),
    onMoved: () => undefined,
    onFailed: (error) => void failed.push(error),
    random: () => 0.5,
  });
  const endpoint = {
    id: randomUUID(),
    version: 1,
    failures: 0,
    status: 'active',
  } as unknown as WebhookEndpoint;
  return {
    watch,
    asked,
    failed,
    known,
    endpoint,
    health: () => now,
    async stored(): Promise<void> {
      const before = known.length;
      asked.shift()?.();
      await expect.poll(() => known.length).toBeGreaterThan(before);
    },
  };
}

test("waits are stored and compared by the database's clock, whatever this process's shows", async () => {
  const s = setup();
  s.watch.note(s.endpoint, { ...FAILURE, status: 429, retryAfterMs: 5_000 });
  await s.stored();
  expect(s.health().callAt).toEqual(new Date(AT + 5_000));
  expect(s.health().failingSince).toEqual(new Date(AT));
  s.watch.note(s.endpoint, { ...FAILURE, status: 429, retryAfterMs: 0 });
  await s.stored();
  expect(s.known).toEqual([false, false]);
});

test('calls go on after a failure without a wait', async () => {
  const s = setup();
  s.watch.note(s.endpoint, FAILURE);
  await s.stored();
  expect(s.known).toEqual([true]);
});

test('a success resets failures that were stored after the endpoint was claimed', async () => {
  const s = setup();
  s.watch.note(s.endpoint, FAILURE);
  await s.stored();
  expect(s.health().failures).toBe(1);
  s.watch.note(s.endpoint, SUCCESS);
  await s.stored();
  expect([s.health().failures, s.watch.size]).toEqual([0, 0]);
});

test('a forgotten endpoint leaves memory, for example after its deletion', async () => {
  const s = setup();
  s.watch.note(s.endpoint, FAILURE);
  await s.stored();
  expect(s.watch.size).toBe(1);
  s.watch.forget(s.endpoint.id);
  expect(s.watch.size).toBe(0);
});

test('results of a forgotten endpoint are stored before it leaves memory', async () => {
  const s = setup();
  s.watch.note(s.endpoint, FAILURE);
  s.watch.forget(s.endpoint.id);
  s.watch.note(s.endpoint, FAILURE);
  s.watch.forget(s.endpoint.id);
  let isDrained = false;
  const drained = s.watch.drain().then(() => (isDrained = true));
  await s.stored();
  expect(isDrained).toBe(false);
  await s.stored();
  await drained;
  expect([s.health().failures, s.watch.size, s.failed]).toEqual([2, 0, []]);
});

test('a forgotten endpoint that is called again before its result is stored stays in memory', async () => {
  const s = setup();
  s.watch.note(s.endpoint, FAILURE);
  s.watch.forget(s.endpoint.id);
  s.watch.note(s.endpoint, FAILURE);
  await s.stored();
  await s.stored();
  expect(s.watch.size).toBe(1);
});

test('answers to calls with outdated endpoint settings do not change its health', async () => {
  const s = setup();
  const changed = { ...s.endpoint, version: 2 };
  const gone: EndedCall = { ...FAILURE, status: 410 };
  s.watch.note(s.endpoint, FAILURE);
  s.watch.note(s.endpoint, gone);
  s.watch.note(changed, FAILURE);
  s.watch.note(s.endpoint, gone);
  await s.stored();
  await s.stored();
  expect(s.health()).toMatchObject({ status: 'active', failures: 2 });
});

test('an outdated answer that comes while nothing is being stored ends the wait for its result', async () => {
  const s = setup();
  s.watch.note({ ...s.endpoint, version: 2 }, FAILURE);
  await s.stored();
  s.watch.note(s.endpoint, FAILURE);
  expect(s.known).toEqual([true, false]);
});
