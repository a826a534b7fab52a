import { expect, test } from 'vitest';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Delivered } from './deliver.ts';
import { createAttempts, type AttemptsDeps } from './attempts.ts';

const message = (attempt: number, action: ClaimedMessage['action'] = 'send') =>
  ({ seq: 1, attempt, action, provider: 'resend', traceparent: null }) as ClaimedMessage;

function setup(record: AttemptsDeps['recorder']['record']) {
  const outcomes: string[] = [];
  const attempts = createAttempts({
    deliver: (): Promise<Delivered> =>
      Promise.resolve({ outcome: { kind: 'accepted', providerMessageId: 'x' }, provider: undefined }),
    recorder: { record },
    events: {
      attemptFinished: (_message, { outcome }) => outcomes.push(outcome.kind),
      recordLost: () => outcomes.push('lost'),
    },
  });
  /** @returns undefined if the attempt was not begun. */
  const run = (one: ClaimedMessage): Promise<null> | undefined => {
    const { promise, resolve } = Promise.withResolvers<null>();
    return attempts.begin(one, () => resolve(null)) ? promise : undefined;
  };
  return { attempts, outcomes, run };
}

test('an attempt in flight is not begun again, and is forgotten when it ends', async () => {
  const { attempts, run, outcomes } = setup(() => Promise.resolve(null));
  const first = run(message(1));
  expect([run(message(1)), attempts.has(1), attempts.size]).toEqual([undefined, true, 1]);
  const inHand = attempts.inHand();
  await first;
  expect([inHand.has(1), attempts.has(1), outcomes]).toEqual([true, false, ['accepted']]);
});

test('the next attempt of a message begins while the previous one is still being recorded', async () => {
  const answers = [Promise.withResolvers<null>(), Promise.withResolvers<null>()];
  const { attempts, run } = setup(({ attempt }) => answers[attempt - 1]?.promise ?? Promise.resolve(null));
  const [first, second] = [run(message(1)), run(message(2))];
  expect([run(message(1)), run(message(2)), run(message(3, 'lost'))]).toEqual(Array(3).fill(undefined));
  answers[0]?.resolve(null);
  await first;
  expect([attempts.has(1), attempts.inHand().get(1)]).toEqual([true, 2]);
  answers[1]?.resolve(null);
  await second;
  expect([attempts.has(1), attempts.size]).toEqual([false, 0]);
});

test('an unrecorded attempt is not called again, but may be settled as lost', async () => {
  const { run, outcomes } = setup(() => Promise.reject(new Error('gone')));
  await run(message(1));
  expect([run(message(1)), outcomes]).toEqual([undefined, ['lost']]);
  await expect(run(message(1, 'lost'))).resolves.toBeNull();
  await expect(run(message(2))).resolves.toBeNull();
});

test('an attempt of a lost worker is settled as ambiguous without a call', async () => {
  const { run, outcomes } = setup(() => Promise.resolve(null));
  await run(message(1, 'lost'));
  expect(outcomes).toEqual(['ambiguous']);
});

test("an attempt of a lost worker is recorded with its provider's deduplication, and may have a receipt", async () => {
  const recorded: unknown[] = [];
  const { run } = setup((_message, { provider, receiptsExpected }) => {
    recorded.push([provider?.dedupe, receiptsExpected]);
    return Promise.resolve(null);
  });
  await run(message(1, 'lost'));
  expect(recorded).toEqual([['key', true]]);
});
