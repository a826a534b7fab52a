import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ClaimedMessage } from '#core/store/claimed-message.ts';
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
  await vi.advanceTimersByTimeAsync(WAIT_MS / 2);
  expect((await late).kind).toBe('unavailable');
  expect(await behind).toEqual({ kind: 'ready', waitedMs: WAIT_MS / 2 });
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
