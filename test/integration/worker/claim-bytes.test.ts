import { expect, test } from 'vitest';
import { encodeWakes } from '#core/domain/queue/wake.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { acceptBatch, acceptRow, seedAccount } from '#test/support/seed.ts';

/**
 * The size of a claim's answer must not grow with the waiting contents: the database and the worker hold it in memory at once.
 */
const MESSAGES = 128;
const CONTENT_BYTES = 30 * 1024;
/**
 * Bound on the contents in one answer: those that count towards `bytesMax`, and the largest number of small ones that a claim
 * takes.
 */
const ANSWER_BYTES_MAX = 1024 * 1024;
const POLL = { interval: 20 };
/** Far beyond the test's duration, so that the sweep does not find what a claim has left. */
const NO_SWEEP = { inFlightMax: 512, sweepMs: 600_000 };

type Delivery = Awaited<ReturnType<typeof setupWorkers>>;

/** Accepts messages whose contents are just small enough to be stored inline. */
async function queue(b: Delivery, overrides: object = {}) {
  const accountId = await seedAccount(b.admin, b.tenant.tenantId, { channel: 'email' });
  const text = 'x'.repeat(CONTENT_BYTES);
  const content = { from: { address: 'a@example.com' }, subject: 's', text };
  const to = 'delivered@simulator.invalid';
  const mail = { channel: 'email', recipient: to, address: to, segments: null, encoding: null };
  const rows = Array.from({ length: MESSAGES }, () =>
    acceptRow(b.tenant, { ...mail, content, content_bytes: CONTENT_BYTES, ...overrides }),
  );
  await acceptBatch(b.api, rows, 5_000);
  return { seqs: rows.map(({ seq }) => seq), lane: { tenantId: b.tenant.tenantId, accountId } };
}

/** Wraps the store and records the bytes of contents in each answer of a claim. */
function weighed(store: WorkerStore) {
  const answers: number[] = [];
  const weigh = (claimed: ClaimedMessage[]): ClaimedMessage[] => {
    const bytes = claimed.map(({ content }) => Buffer.byteLength(JSON.stringify(content)));
    if (claimed.length > 0) answers.push(total(bytes));
    return claimed;
  };
  const watched: WorkerStore = {
    ...store,
    claim: async (...terms) => weigh(await store.claim(...terms)),
    claimDue: async (...terms) => weigh(await store.claimDue(...terms)),
    async claimedBy(...terms) {
      const found = await store.claimedBy(...terms);
      return found === 'claims_open' ? found : weigh(found);
    },
  };
  return { answers, store: watched };
}

async function sentCount(b: Delivery): Promise<number> {
  const { sent = 0, delivered = 0 } = await b.statuses();
  return sent + delivered;
}

const total = (bytes: readonly number[]): number => bytes.reduce((sum, one) => sum + one, 0);

test('claims by sequence number return bounded contents, and the lane yields the rest at once', async () => {
  await using b = await setupWorkers(NO_SWEEP);
  const { seqs, lane } = await queue(b);
  const { answers, store } = weighed(b.store);
  b.startWorker({}, store).wake(encodeWakes(seqs.map((seq) => ({ seq, ...lane }))), 'normal');
  await expect.poll(() => sentCount(b), POLL).toBe(MESSAGES);
  expect(Math.max(...answers)).toBeLessThanOrEqual(ANSWER_BYTES_MAX);
  expect(total(answers)).toBeGreaterThanOrEqual(MESSAGES * CONTENT_BYTES);
});

test('claims from a lane return bounded contents and leave no message for the next sweep', async () => {
  await using b = await setupWorkers(NO_SWEEP);
  const { seqs } = await queue(b);
  await b.admin`update despatch.live_messages set due_at = now() where seq = any (${seqs}::bigint[])`;
  const { answers, store } = weighed(b.store);
  // The worker's first sweep, at its start, finds them.
  b.startWorker({}, store);
  await expect.poll(() => sentCount(b), POLL).toBe(MESSAGES);
  expect(Math.max(...answers)).toBeLessThanOrEqual(ANSWER_BYTES_MAX);
  expect(total(answers)).toBeGreaterThanOrEqual(MESSAGES * CONTENT_BYTES);
});

test('claims with a lost answer are read in bounded parts; expired leases carry no content', async () => {
  await using b = await setupWorkers();
  const { seqs } = await queue(b);
  const terms = { worker: 'w1', leaseMs: 60_000, bytesMax: MESSAGES * CONTENT_BYTES };
  expect(await b.store.claim(seqs, terms)).toHaveLength(MESSAGES);
  const { answers, store } = weighed(b.store);
  const found: number[] = [];
  for (let after: number | undefined = 0; after !== undefined; after = found.at(-1)) {
    const part = await store.claimedBy(seqs, terms, { isLate: false, afterSeq: after });
    if (part === 'claims_open') throw new Error('a claim has not ended');
    if (part.length === 0) break;
    found.push(...part.map(({ seq }) => seq));
  }
  expect(found).toEqual(seqs);
  expect(Math.max(...answers)).toBeLessThanOrEqual(ANSWER_BYTES_MAX);

  await b.admin`update despatch.live_messages set lease_until = now() where seq = any (${seqs}::bigint[])`;
  const lost = await b.store.lost(seqs);
  expect(lost).toHaveLength(MESSAGES);
  expect(lost.every(({ content }) => content === null)).toBe(true);
});

test('a claim returns at least one message of any size; small contents use no byte limit', async () => {
  await using b = await setupWorkers();
  const { seqs } = await queue(b);
  const claim = (bytesMax: number) => b.store.claim(seqs, { worker: 'w1', leaseMs: 60_000, bytesMax });
  expect(await claim(1)).toHaveLength(1);
  expect(await claim(3 * CONTENT_BYTES)).toHaveLength(3);
  await b.admin`update despatch.live_messages set content_bytes = null where seq = any (${seqs}::bigint[])`;
  expect(await claim(1)).toHaveLength(MESSAGES - 4);
});
