import { expect, test } from 'vitest';
import type { ClaimedMessage, Completion } from '#core/store/deliveries.ts';
import { createRecorder } from './recorder.ts';

const message = (id: string): ClaimedMessage => ({
  action: 'send',
  id,
  purgeOn: '2026-12-28',
  seq: 1,
  tenantId: 't',
  attempt: 1,
  retries: 0,
  ambiguous: 0,
  providerWaits: 0,
  duplicateRisk: false,
  channel: 'sms',
  address: '+15550000001',
  sender: null,
  content: { body: 'x' },
  test: false,
  segments: 1,
  deliveryGuarantee: 'at_least_once',
  enqueuedAt: new Date(),
  expiresAt: new Date(Date.now() + 86_400_000),
  traceparent: null,
  providerId: 'p',
  provider: 'twilio',
  providerStatus: 'active',
  providerVersion: 1,
  discard: false,
});
const ACCEPTED = { kind: 'accepted', providerMessageId: 'x' } as const;

function setup(complete: (rows: readonly Completion[]) => Promise<Set<string>>) {
  const failures: number[] = [];
  const aborted = new AbortController();
  const recorder = createRecorder({
    store: { complete },
    now: Date.now,
    random: () => 0,
    onFailure: (_error, rows) => failures.push(rows),
    signal: aborted.signal,
  });
  return { recorder, failures, aborted };
}

const all = (rows: readonly Completion[]) => new Set(rows.map((row) => row.id));

test('a database that is away delays a record and loses none', async () => {
  let away = 2;
  const b = setup((rows) => (away-- > 0 ? Promise.reject(new Error('gone')) : Promise.resolve(all(rows))));
  await expect(b.recorder.record(message('a'), ACCEPTED, undefined)).resolves.toMatchObject({
    status: 'sent',
  });
  expect(b.failures).toEqual([1, 1]);
});

test('a row that the database refuses fails alone', async () => {
  const b = setup((rows) =>
    rows.some((row) => row.id === 'bad')
      ? Promise.reject(Object.assign(new Error('no'), { code: '22P02' }))
      : Promise.resolve(all(rows)),
  );
  const results = await Promise.allSettled(
    ['a', 'b', 'bad', 'c'].map((id) => b.recorder.record(message(id), ACCEPTED, undefined)),
  );
  expect(results.map((result) => result.status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
});

test('an attempt that is no longer current is told apart', async () => {
  const b = setup(() => Promise.resolve(new Set()));
  await expect(b.recorder.record(message('a'), ACCEPTED, undefined)).resolves.toBeNull();
});

test('a process that ends does not wait for a database that stays away', async () => {
  const b = setup(() => Promise.reject(new Error('gone')));
  const recording = b.recorder.record(message('a'), ACCEPTED, undefined);
  await expect.poll(() => b.failures.length).toBeGreaterThan(0);
  b.aborted.abort();
  await expect(recording).rejects.toThrow('gone');
});
