import { createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import type { SettledReceiptCalls, StoredReceiptCall } from '#core/store/receipts/receipt-reports.ts';
import type { ProviderContext } from '#providers/provider.ts';
import type { Account } from '../accounts/accounts.ts';
import { createReceiptReader } from './receipt-reader.ts';
import type { ReceiptWork } from './receipt-pace.ts';

/** An account of a vendor that signs nothing; the body of a call is its number of reports. */
const COUNTING = {
  id: 'counting',
  version: 1,
  config: {},
  secrets: {},
  row: null,
  provider: {
    id: 'counting',
    receipts: {
      headers: [],
      parse: ({ body }: { body: Uint8Array }) => ({
        kind: 'receipts',
        receipts: Array.from({ length: Number(Buffer.from(body).toString()) }, () => ({
          providerStatus: 'ok',
        })),
      }),
    },
  },
} as unknown as Account;

/** An account whose adapter throws. */
const THROWING = {
  ...COUNTING,
  id: 'throwing',
  provider: {
    id: 'throwing',
    receipts: {
      headers: [],
      parse() {
        throw new Error('a bug');
      },
    },
  },
} as unknown as Account;

/** Creates a store with calls of deleted accounts, which contain no reports, and a pace whose turns the test starts. */
function setup(withSurplus: Set<string> | 'everyone', onBegun: () => void = () => undefined) {
  const calls: StoredReceiptCall[] = [];
  const passedOver: (readonly string[])[] = [];
  const settled: number[] = [];
  const postponed: SettledReceiptCalls['again'][number][] = [];
  const refused: SettledReceiptCalls['refused'][number][] = [];
  const works: ReceiptWork[] = [];
  let commits = 0;
  const begunCalls = new Set<number>();
  const turns: (() => void)[] = [];
  /** Ends the readings of calls of accounts whose credential takes long. */
  const slow = Promise.withResolvers<void>();
  const failed: unknown[] = [];
  const told: string[] = [];
  const reader = createReceiptReader({
    publicBaseUrl: 'https://hooks.example',
    receiptKey: createSecretKey(Buffer.alloc(32)),
    loadIds: createIdLoader(async () => Buffer.alloc(16)),
    store: {
      async claimReceiptCalls({ bodyMax, without = [] }) {
        passedOver.push(without);
        const taken = calls.filter(
          ({ tenantId, body }) => !without.includes(tenantId) && body.length <= bodyMax,
        );
        for (const one of taken) calls.splice(calls.indexOf(one), 1);
        return taken;
      },
      async settleReceiptCalls({ done, begun, again, refused: rejected }: SettledReceiptCalls) {
        if (begun.length > 0) {
          commits++;
          for (const id of begun) begunCalls.add(id);
          onBegun();
        }
        if (done.includes(-1)) throw new Error('away');
        settled.push(...done);
        postponed.push(...again);
        refused.push(...rejected);
      },
    },
    accounts: {
      async inForce(id) {
        if (id === COUNTING.id) return { kind: 'ready', accounts: [COUNTING] };
        if (id.startsWith('slow')) await slow.promise;
        if (id.startsWith('sealed')) return { kind: 'unavailable' };
        if (id.startsWith('misconfigured')) return { kind: 'unusable', code: 'config_invalid' };
        if (id.startsWith('keyless')) return { kind: 'unusable', code: 'credentials_unreadable' };
        if (id.startsWith('throwing')) return { kind: 'ready', accounts: [THROWING] };
        return { kind: 'unusable', code: 'provider_deleted' };
      },
    },
    contextOf: () => ({}) as ProviderContext,
    deadlineMs: 10_000,
    onRead: (provider, { kind }, { id }) => void told.push(`${id} of ${provider} ${kind}`),
    onAdapterFault: () => undefined,
    pace: {
      withSurplus: () => withSurplus,
      async run(kind, commit, workOf) {
        if (kind === 'surplus') await new Promise<void>((resolve) => turns.push(resolve));
        const result = await commit();
        if (kind === 'expected') works.push(workOf(result));
        return result;
      },
    },
    onSettled: () => void told.push('settled'),
    onMore: () => void told.push('more'),
    onFailed: (error) => void failed.push(error),
  });
  const bring = (id: number, tenantId: string, reports = 0, bytes = 1) =>
    calls.push({
      id,
      tenantId,
      accountId: reports === 0 ? `${tenantId} account` : COUNTING.id,
      accountVersion: 1,
      query: '',
      headers: {},
      body: Buffer.from(String(reports).padStart(bytes)),
      receivedMs: Date.now(),
      tries: 1,
    } as unknown as StoredReceiptCall);
  return {
    reader,
    bring,
    settled,
    postponed,
    refused,
    passedOver,
    turns,
    works,
    failed,
    told,
    begun: () => commits,
    begunCalls,
    slow,
  };
}

test('receipt calls of a tenant with surplus wait for a turn, and those of others do not', async () => {
  const { reader, bring, settled, passedOver, turns } = setup(new Set(['loud']));
  bring(1, 'loud');
  bring(2, 'quiet');
  await reader.read();
  expect(settled).toEqual([2]);
  bring(3, 'loud');
  bring(4, 'quiet');
  await reader.read();
  expect(settled).toEqual([2, 4]);
  // One batch of the tenant's calls is in hand at a time.
  expect(passedOver).toEqual([[], ['loud']]);
  turns[0]?.();
  await reader.drain();
  expect(settled).toEqual([2, 4, 1]);
  await reader.read();
  expect(passedOver.at(-1)).toEqual([]);
});

test('if every tenant has surplus, all calls wait for a turn', async () => {
  const { reader, bring, settled, turns } = setup('everyone');
  bring(1, 'a');
  await reader.read();
  expect(settled).toEqual([]);
  turns[0]?.();
  await reader.drain();
  expect(settled).toEqual([1]);
});

test('a turn that fails is reported, and its tenant is no longer skipped', async () => {
  const { reader, bring, passedOver, turns, failed } = setup(new Set(['loud']));
  bring(-1, 'loud');
  await reader.read();
  turns[0]?.();
  await reader.drain();
  expect(failed).toEqual([new Error('away')]);
  await reader.read();
  expect(passedOver.at(-1)).toEqual([]);
});

test('a call with many reports is settled in turns and does not delay others', async () => {
  const withSurplus = new Set<string>();
  const { reader, bring, settled, passedOver, turns, begun } = setup(withSurplus, () =>
    withSurplus.add('loud'),
  );
  bring(1, 'loud', 1_000);
  bring(2, 'quiet');
  await reader.read();
  expect(settled).toEqual([2]);
  await expect.poll(begun).toBe(1);
  bring(3, 'quiet');
  await reader.read();
  expect([settled, begun(), passedOver.at(-1)]).toEqual([[2, 3], 1, ['loud']]);
  for (let turn = 0; turn < 3; turn++) {
    await expect.poll(() => turns.length).toBe(turn + 1);
    turns[turn]?.();
  }
  await reader.drain();
  expect(settled).toEqual([2, 3, 1]);
});

test('a call whose credential is slow to load does not delay other tenants', async () => {
  const { reader, bring, settled, passedOver, slow } = setup(new Set());
  bring(1, 'slow');
  bring(2, 'quick');
  await reader.read();
  expect(settled).toEqual([2]);
  bring(3, 'slow');
  bring(4, 'quick');
  await reader.read();
  expect([settled, passedOver.at(-1)]).toEqual([[2, 4], ['slow']]);
  slow.resolve();
  await reader.drain();
  await reader.read();
  expect(settled).toEqual([2, 4, 1, 3]);
});

test('a call for an account whose settings cannot be used is read again, and one for a deleted account is given up', async () => {
  const { reader, bring, settled, postponed, refused } = setup(new Set());
  bring(1, 'misconfigured');
  bring(2, 'deleted');
  bring(3, 'sealed');
  await reader.read();
  await reader.drain();
  expect(settled).toEqual([2]);
  expect(postponed).toEqual([
    { id: 1, ms: 2_000, misconfigured: true },
    { id: 3, ms: 2_000, misconfigured: false },
  ]);
  expect(refused).toEqual([{ account_id: 'deleted account', reason: 'unreadable' }]);
});

test.each([
  ['whose secret cannot be decrypted', 'keyless'],
  ['whose adapter throws', 'throwing'],
])('a call for an account %s is read again: all accounts may be affected', async (_, tenantId) => {
  const { reader, bring, settled, postponed, refused } = setup(new Set());
  bring(1, tenantId);
  await reader.read();
  await reader.drain();
  expect({ settled, postponed, refused }).toEqual({
    settled: [],
    postponed: [{ id: 1, ms: 2_000, misconfigured: false }],
    refused: [],
  });
});

test('small calls are settled while large calls of several tenants wait for their turns', async () => {
  const withSurplus = new Set<string>();
  const { reader, bring, settled, turns, begunCalls } = setup(withSurplus);
  for (let tenant = 1; tenant <= 4; tenant++) {
    bring(tenant, `loud ${tenant}`, 1_000, 4 * 1024 * 1024);
    withSurplus.add(`loud ${tenant}`);
    await reader.read();
  }
  bring(5, 'other', 1_000, 4 * 1024 * 1024);
  bring(6, 'quiet', 1_000);
  await reader.read();
  // A slow machine reads them after the call has returned.
  await expect.poll(() => [settled, [...begunCalls]]).toEqual([[6], [6]]);
  const draining = reader.drain();
  for (let turn = 0; turn < 4 * Math.ceil(1_000 / 64); turn++) {
    await expect.poll(() => turns.length).toBeGreaterThan(turn);
    turns[turn]?.();
  }
  await draining;
  await reader.read();
  await reader.drain();
  expect(settled.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6]);
});

test('while messages are sent, a pause after each read lets more calls accumulate', async () => {
  const { reader } = setup(new Set());
  expect(reader.gapMs(true)).toBe(0);
  await reader.read();
  expect(reader.gapMs(true)).toBeGreaterThan(0);
  expect(reader.gapMs(false)).toBe(0);
  await expect.poll(() => reader.gapMs(true)).toBe(0);
});

test('the pace is told how long calls took to read, and that a large one without reports was work too', async () => {
  const { reader, bring, works } = setup(new Set());
  bring(1, 'a', 3);
  // Read, but without reports.
  bring(2, 'b', Number.NaN, 1_000_000);
  // Not read.
  bring(3, 'c', 0, 1_000_000);
  await reader.read();
  await reader.drain();
  // A slow machine settles them one by one.
  expect(works.reduce((sum, { readMs = 0 }) => sum + readMs, 0)).toBeGreaterThan(0);
  expect(Object.fromEntries(works.flatMap(({ receipts }) => [...receipts]))).toEqual({ a: 3, b: 489, c: 1 });
});

const FULL_BYTES = 4 * 1024 * 1024;

test.each<[what: string, withSurplus: Set<string> | 'everyone', calls: number]>([
  ['of 32 MiB', new Set(Array.from({ length: 8 }, (_, n) => `loud ${n}`)), 8],
  ['of 16 MiB, and every tenant has surplus,', 'everyone', 4],
])('while calls %s wait for their turns, not even a small one is taken', async (_, withSurplus, calls) => {
  const { reader, bring, settled, passedOver, turns } = setup(withSurplus);
  for (let n = 0; n < calls; n++) bring(n, `loud ${n}`, 0, FULL_BYTES);
  await reader.read();
  bring(9, 'quiet');
  const reading = reader.read();
  for (let tick = 0; tick < 5; tick++) await new Promise(setImmediate);
  expect([passedOver.length, settled]).toEqual([1, []]);
  turns[0]?.();
  await reading;
  turns[1]?.();
  await reader.drain();
  expect(settled.toSorted((a, b) => a - b)).toEqual([...Array.from({ length: calls }, (_n, n) => n), 9]);
});

test.each([
  ['no call', 0, 1, false],
  ['few calls', 199, 1, false],
  ['as many calls as one read takes', 200, 1, true],
  ['an eighth of the bytes that one read takes', 2, 64 * 1024, false],
  ['more bytes', 2, 64 * 1024 + 1, true],
])('after %s there may be more to take at once: %4$s', async (_, calls, bytes, isFull) => {
  const { reader, bring } = setup(new Set());
  for (let n = 0; n < calls; n++) bring(n, 'a', 0, bytes);
  expect(await reader.read()).toEqual({ isFull });
});

test('each call is told with what was read, and receipts to apply and calls to take are announced', async () => {
  const { reader, bring, told, turns } = setup(new Set(['loud']));
  await reader.read();
  expect(told).toEqual([]);
  bring(1, 'quiet', 1);
  bring(2, 'loud');
  await reader.read();
  expect(told).toEqual(['1 of counting read', 'settled']);
  turns[0]?.();
  await reader.drain();
  expect(told.slice(2)).toEqual(['2 of unknown unreadable', 'settled', 'more']);
});
