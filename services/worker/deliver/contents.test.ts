import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import { createContents } from './contents.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const KIB = 1024;
const MIB = 1024 * KIB;
const LARGEST = 13.4 * MIB;
/** How long an SMTP server may take to accept a mail. */
const SLOW_MS = 39_000;
const WAIT_MS = 30_000;

const claimed = (content: unknown, tenantId = 'a'): ClaimedMessage =>
  ({ id: 'm', tenantId, purgeOn: '2026-01-05', content }) as unknown as ClaimedMessage;

function setup(bytesMax = 64 * MIB, loadContent: () => Promise<unknown> = () => Promise.resolve({})) {
  const contents = createContents({ store: { loadContent }, bytesMax, waitMsMax: WAIT_MS });
  const load = (tenantId: string, storedBytes: number) => contents.load(claimed({ storedBytes }, tenantId));

  /** Makes a call with a content. @returns how it was loaded, and after which wait. */
  async function call(tenantId: string, bytes: number, callMs: number) {
    const begun = performance.now();
    const loaded = await load(tenantId, bytes);
    const waitedMs = performance.now() - begun;
    if (loaded.kind === 'ready') void setTimeout(loaded.release, callMs);
    return { kind: loaded.kind, waitedMs };
  }

  /** Keeps some calls of a tenant under way or waiting: as one ends, the next begins. */
  function flood(tenantId: string, bytes: number, callMs: number, callsMax = 8): void {
    const again = async (): Promise<void> => {
      const { kind } = await call(tenantId, bytes, callMs);
      setTimeout(() => void again(), kind === 'ready' ? callMs : 1);
    };
    for (let i = 0; i < callsMax; i++) void again();
  }

  return { contents, load, call, flood };
}

/** Returns the longest wait of a tenant's calls, one each `everyMs` for five minutes. */
async function longestWait(everyMs: number, call: () => Promise<{ kind: string; waitedMs: number }>) {
  const calls: ReturnType<typeof call>[] = [];
  for (let atMs = 0; atMs < 300_000; atMs += everyMs) {
    calls.push(call());
    await vi.advanceTimersByTimeAsync(everyMs);
  }
  await vi.advanceTimersByTimeAsync(WAIT_MS);
  const ended = await Promise.all(calls);
  expect(new Set(ended.map(({ kind }) => kind))).toEqual(new Set(['ready']));
  return Math.max(...ended.map(({ waitedMs }) => waitedMs));
}

test('a content that came with its claim is returned without a load', async () => {
  const { contents } = setup(10, () => Promise.reject(new Error('asked for nothing')));
  expect(await contents.load(claimed({ body: 'a' }))).toMatchObject({
    kind: 'ready',
    content: { body: 'a' },
  });
});

test('a load that finds nothing or fails frees its memory', async () => {
  const answers = [
    () => Promise.resolve(null),
    () => Promise.reject(new Error('away')),
    () => Promise.resolve({}),
  ];
  const { load } = setup(MIB, () => (answers.shift() as () => Promise<unknown>)());
  const kinds: string[] = [];
  for (let i = 0; i < 3; i += 1) kinds.push((await load('a', MIB)).kind);
  expect(kinds).toEqual(['gone', 'unavailable', 'ready']);
});

test('a load that waits too long ends as unavailable and lets the next one in', async () => {
  const { load, call } = setup();
  for (const tenant of ['a', 'b', 'c', 'd']) void call(tenant, LARGEST, 2 * WAIT_MS);
  const late = load('e', LARGEST);
  await vi.advanceTimersByTimeAsync(WAIT_MS / 2);
  const behind = call('f', 2 * MIB, 0);
  // Room is given once for all contents whose wait ends together, right after them.
  await vi.advanceTimersByTimeAsync(WAIT_MS / 2 + 1);
  expect((await late).kind).toBe('unavailable');
  expect(await behind).toEqual({ kind: 'ready', waitedMs: WAIT_MS / 2 + 1 });
});

test('a tenant holds no more than remains free for others, or one content', async () => {
  const { call } = setup();
  const calls = ['a', 'a', 'a', 'b', 'b'].map((tenant) => call(tenant, LARGEST, 1_000));
  await vi.advanceTimersByTimeAsync(10_000);
  const waits = (await Promise.all(calls)).map(({ waitedMs }) => waitedMs);
  expect(waits).toEqual([0, 0, 1_000, 0, 1_000]);
});

test('the largest content is loaded even within the smallest budget', async () => {
  const { load } = setup(16 * MIB);
  expect((await load('a', LARGEST)).kind).toBe('ready');
});

test.each([
  ['the largest contents', [LARGEST]],
  ['contents of two megabytes', [2 * MIB]],
  ['contents of a megabyte', [MIB]],
  ['contents of all these', [LARGEST, 2 * MIB, MIB]],
])('slow calls of ten tenants with %s delay no content of 100 KiB of another tenant', async (_, sizes) => {
  const { call, flood } = setup();
  for (let i = 0; i < 10; i++) flood(`slow ${i}`, sizes[i % sizes.length] ?? 0, SLOW_MS);
  expect(await longestWait(1_000, () => call('victim', 100 * KIB, 200))).toBeLessThan(1_000);
});

test('contents that fit pass the largest one only for a while', async () => {
  const { call, flood } = setup();
  for (let tenant = 0; tenant < 50; tenant++) flood(`quick ${tenant}`, 3 * MIB, 1_000);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(await longestWait(20_000, () => call('large', LARGEST, 0))).toBeLessThanOrEqual(WAIT_MS / 4 + 2_000);
});

test("a tenant's own small contents do not starve its largest one", async () => {
  const { call, flood } = setup();
  flood('other', LARGEST, SLOW_MS, 2);
  flood('own', 2 * MIB, 1_000, 30);
  await vi.advanceTimersByTimeAsync(5_000);
  const waited = call('own', LARGEST, 0);
  await vi.advanceTimersByTimeAsync(WAIT_MS);
  expect(await waited).toMatchObject({ kind: 'ready' });
  expect((await waited).waitedMs).toBeLessThanOrEqual(WAIT_MS / 4 + 2_000);
});

test('tenants take turns, however many contents one of them waits with', async () => {
  const { call } = setup();
  void call('first', LARGEST, 1_000);
  for (const tenant of ['a', 'b', 'c']) void call(tenant, LARGEST, SLOW_MS);
  for (let i = 0; i < 20; i++) void call('many', LARGEST, 500);
  const one = call('one', LARGEST, 500);
  await vi.advanceTimersByTimeAsync(WAIT_MS);
  expect(await one).toEqual({ kind: 'ready', waitedMs: 1_500 });
});

test.each([
  ['many small contents', 200 * KIB, 1_000, 3],
  ['slow calls with contents of two megabytes', 2 * MIB, SLOW_MS, 2],
])("a tenant's %s do not starve its large one", async (_, bytes, callMs, callsMax) => {
  const { call, flood } = setup();
  flood('own', bytes, callMs, callsMax);
  for (let tenant = 0; tenant < 10; tenant++) flood(`other ${tenant}`, 6 * MIB, 4_000, 2);
  await vi.advanceTimersByTimeAsync(6_000);
  // Each content loads while the tenant's other calls are under way.
  expect(await longestWait(40_000, () => call('own', 20 * MIB, 0))).toBeLessThanOrEqual(WAIT_MS / 2);
});

test('slow calls of two tenants with the largest contents do not delay contents of two megabytes', async () => {
  const { call, flood } = setup();
  for (const tenant of ['slow 1', 'slow 2']) flood(tenant, LARGEST, SLOW_MS);
  expect(await longestWait(1_000, () => call('victim', 2 * MIB, 200))).toBeLessThan(1_000);
});

test('small contents of tenants take turns too', async () => {
  const { call } = setup();
  for (const tenant of ['a', 'b', 'c', 'd', 'e']) void call(tenant, 11 * MIB, SLOW_MS);
  for (let i = 0; i < 16 * 20; i++) void call(`many ${Math.floor(i / 20)}`, 900 * KIB, 1_000);
  const last = call('last', 900 * KIB, 1_000);
  await vi.advanceTimersByTimeAsync(WAIT_MS);
  expect((await last).waitedMs).toBeLessThanOrEqual(4_000);
});

test('a tenant with one content has its turn before the next of a tenant whose many have waited long', async () => {
  const { call } = setup();
  for (const tenant of ['a', 'b', 'c']) void call(tenant, LARGEST, 2 * SLOW_MS);
  void call('d', LARGEST, 10_000);
  for (let i = 0; i < 20; i++) void call('many', LARGEST, 500);
  await vi.advanceTimersByTimeAsync(9_000);
  const one = call('one', LARGEST, 500);
  await vi.advanceTimersByTimeAsync(WAIT_MS);
  expect(await one).toEqual({ kind: 'ready', waitedMs: 1_500 });
});

test('all room is free again after any order of calls', async () => {
  const { call } = setup();
  const calls: ReturnType<typeof call>[] = [];
  for (let i = 0; i < 300; i++) {
    calls.push(call(`tenant ${i % 13}`, ((i * 7919) % 1_400) * 10 * KIB + KIB, (i * 104_729) % 3_000));
    await vi.advanceTimersByTimeAsync(20);
  }
  await vi.advanceTimersByTimeAsync(2 * WAIT_MS);
  const kinds = new Set((await Promise.all(calls)).map(({ kind }) => kind));
  expect(kinds).toEqual(new Set(['ready', 'unavailable']));
  expect(await call('last', 56 * MIB, 0)).toEqual({ kind: 'ready', waitedMs: 0 });
  // As many as one tenant may hold of the reserve.
  for (let i = 0; i < 4; i++) expect(await call('small', MIB, 1_000)).toEqual({ kind: 'ready', waitedMs: 0 });
});

test('ten thousand contents that arrive together and wait in vain cost little processor time', async () => {
  vi.useRealTimers();
  const contents = createContents({
    store: { loadContent: () => Promise.resolve({}) },
    bytesMax: 64 * MIB,
    waitMsMax: 200,
  });
  const load = (tenantId: string, storedBytes: number) => contents.load(claimed({ storedBytes }, tenantId));
  await load('first', 56 * MIB);
  const before = process.cpuUsage();
  const loads = Array.from({ length: 10_000 }, (_, i) => load(`tenant ${i % 100}`, 2 * MIB));
  expect(new Set((await Promise.all(loads)).map(({ kind }) => kind))).toEqual(new Set(['unavailable']));
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(4_000);
});
