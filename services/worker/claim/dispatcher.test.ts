import { expect, test } from 'vitest';
import { createFairQueue } from '#core/domain/fair-queue.ts';
import type { Wake } from '#core/domain/wake.ts';
import type { ClaimedMessage } from '#core/store/deliveries.ts';
import type { Breakers } from '../accounts/breakers.ts';
import { createDispatcher } from './dispatcher.ts';

const wake = (n: number): Wake => ({
  id: `message ${n}`,
  purgeOn: '2030-01-07',
  tenantId: `tenant ${n % 3}`,
  priority: 1,
});

const never = (): never => {
  throw new Error('nothing was to be started');
};

/** A dispatcher whose claims are answered by hand and start nothing. */
function setup() {
  const ended: string[] = [];
  const claims: { ids: string[]; answer: (claimed: ClaimedMessage[]) => void }[] = [];
  const dispatcher = createDispatcher({
    queue: createFairQueue<Wake>(1_000, 5_000, 512),
    store: {
      claim: (wakes) => new Promise((answer) => claims.push({ ids: wakes.map(({ id }) => id), answer })),
      claimDue: () => Promise.resolve({ messages: [], more: false }),
      waitingMessages: never,
      endRefused: never,
    },
    breakers: { blocked: () => [] } as unknown as Breakers,
    deliver: never,
    recorder: { record: never, drain: () => Promise.resolve() },
    worker: 'worker',
    leaseMs: 60_000,
    inFlightMax: 512,
    events: {
      attemptFinished: never,
      claimFailed: never,
      recordLost: never,
      claimRefused: never,
      endedUncalled: ({ id }, reason) => ended.push(`${id} ${reason}`),
    },
  });
  const offer = (...numbers: number[]): void => numbers.forEach((n) => dispatcher.offer(wake(n)));
  return { dispatcher, claims, offer, ended };
}

test('what comes in one tick is claimed in one statement', async () => {
  const { claims, offer } = setup();
  offer(1, 2, 3, 4, 5);
  await expect.poll(() => claims.length).toBeGreaterThan(0);
  expect(claims.map(({ ids }) => ids.toSorted())).toEqual([
    ['message 1', 'message 2', 'message 3', 'message 4', 'message 5'],
  ]);
});

test('two claims at once, and what comes meanwhile shares the next', async () => {
  const { dispatcher, claims, offer } = setup();
  offer(1);
  await expect.poll(() => claims.length).toBe(1);
  offer(2);
  await expect.poll(() => claims.length).toBe(2);
  for (const n of [3, 4, 5]) {
    offer(n);
    await new Promise(setImmediate);
  }
  expect(claims.length).toBe(2);
  claims[0]?.answer([]);
  await expect.poll(() => claims.length).toBe(3);
  expect(claims[2]?.ids.toSorted()).toEqual(['message 3', 'message 4', 'message 5']);
  for (const { answer } of claims) answer([]);
  await dispatcher.stop();
  expect(dispatcher.inFlight).toBe(0);
});

test('what ended before a call is told, and gives its place back', async () => {
  const { dispatcher, claims, offer, ended } = setup();
  offer(1, 2);
  await expect.poll(() => claims.length).toBe(1);
  expect(dispatcher.inFlight).toBe(2);
  const row = (n: number, action: ClaimedMessage['action']) =>
    ({ ...wake(n), action }) as unknown as ClaimedMessage;
  claims[0]?.answer([row(1, 'expired'), row(2, 'no_route')]);
  await expect.poll(() => dispatcher.inFlight).toBe(0);
  expect(ended.toSorted()).toEqual(['message 1 expired', 'message 2 no_route']);
});
