import { expect, test } from 'vitest';
import { workerStore } from '#core/store/worker-store.ts';
import type { ClaimedPage } from '#core/store/sending/claims.ts';
import type { LanePlaces, WaitingPage } from '#core/store/sending/lane.ts';
import { rowsRead } from '#test/support/rows-read.ts';
import { ADDRESS_KEYS } from '#test/support/seed.ts';
import { setupMessages, terms, type MessageBench } from '#test/support/setup-messages.ts';

/**
 * A lane with far more messages than one call may read. Messages that wait normally must not hide the others behind them for
 * long.
 */
const DEPTH = 30_000;
const PAGE = { most: 200, readsMax: 5_000 };
/** As many as full pages need, plus a last one that is not full. */
const PAGES = DEPTH / PAGE.readsMax + 1;

const laneOf = ({ tenant, accountId }: MessageBench) => ({ tenantId: tenant.tenantId, accountId });

/** Sets up six messages, and behind them `DEPTH` ones that are due `gapMs` apart. */
async function setup({ begunAgo = 3_600_000, gapMs = 1 } = {}) {
  const b = await setupMessages();
  const seqs = await b.accept(6);
  await b.admin`update despatch.live_messages set due_at = now() - ${begunAgo} * interval '1 millisecond'`;
  await b.admin`
    insert into despatch.live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
      address_key, expires_at, updated_at)
    select 900000000 + n, l.purge_on, l.tenant_id, l.account_id, l.due_at + n * ${gapMs} * interval '1 millisecond', 'queued', l.priority,
      l.channel, l.test, l.pinned, sha256(n::text::bytea), l.expires_at, l.updated_at
    from despatch.live_messages l, generate_series(1, ${DEPTH}) n where l.seq = ${seqs[0] ?? 0}`;
  await b.admin`vacuum analyze despatch.live_messages`;
  const put = async (seq: number, nth: number) =>
    b.admin`update despatch.live_messages l set due_at = x.due_at from despatch.live_messages x
      where l.seq = ${seq} and x.seq = ${900_000_000 + nth}`;
  return { ...b, seqs, put, [Symbol.asyncDispose]: () => b[Symbol.asyncDispose]() };
}

/** Runs work with a store on one connection. `rowsOf`: counts the rows that a query of the store reads. */
async function onOneConnection<T>(
  { admin }: MessageBench,
  work: (
    store: ReturnType<typeof workerStore>,
    rowsOf: (query: () => Promise<void>) => Promise<number>,
  ) => Promise<T>,
): Promise<T> {
  const connection = await admin.reserve();
  try {
    await connection`set search_path = despatch`;
    const store = workerStore(connection, 10_000, ADDRESS_KEYS);
    return await work(store, (query) => rowsRead(connection, query));
  } finally {
    connection.release();
  }
}

/** Reads all pages of a lane on one connection. @returns what each found and how many rows it read. */
function readLane(b: MessageBench, betweenPages = async (): Promise<unknown> => undefined) {
  return onOneConnection(b, async (store, rowsOf) => {
    const found: number[] = [];
    const reads: number[] = [];
    let at: LanePlaces | undefined;
    for (let n = 0; n < 2 * PAGES; n += 1) {
      const pages: WaitingPage[] = [];
      const read = async () => void pages.push(await store.findWaitingDue(laneOf(b), PAGE, at));
      reads.push(await rowsOf(read));
      found.push(...pages.flatMap(({ rows }) => rows.map(({ seq }) => seq)));
      at = pages[0]?.next;
      await betweenPages();
      if (at === undefined) break;
    }
    return { found, reads };
  });
}

test('a deep lane is searched in bounded pages that find expired, suppressed and lost messages', async () => {
  await using b = await setup();
  const [, expired = 0, suppressed = 0, lost = 0, last = 0, underWay = 0] = b.seqs;
  for (const [i, seq] of [expired, suppressed, lost, last].entries()) await b.put(seq, 4_000 + 8_600 * i);
  await b.admin`update despatch.live_messages set expires_at = now() where seq = any (${[expired, last]})`;
  await b.admin`update despatch.live_messages set status = 'sending', attempt = 1, lease_until = now() where seq = ${lost}`;
  await b.admin`update despatch.live_messages set status = 'sending', attempt = 1, lease_until = now() + interval '1 minute'
    where seq = ${underWay}`;
  await b.admin`
    insert into despatch.suppressions (tenant_id, channel, address_key, address, reason, scope, source)
    select l.tenant_id, l.channel, decode(md5('stopped'), 'hex'), '+15550000009', 'manual', 'all', 'api'
    from despatch.live_messages l where l.seq = ${suppressed}`;
  await b.admin`update despatch.live_messages set address_key = decode(md5('stopped'), 'hex') where seq = ${suppressed}`;

  const round = await readLane(b);
  expect(round.found).toEqual([expired, suppressed, lost, last]);
  expect(round.reads.length).toBeLessThanOrEqual(PAGES);
  // Besides the page: rows read once per call, the found messages, and the index of suppressions.
  expect(round.reads.filter((n) => n > PAGE.readsMax + 200)).toEqual([]);
  const [shown] =
    await b.admin`select due_at > lease_until as later from despatch.live_messages where seq = ${underWay}`;
  expect(shown).toEqual({ later: true });
  // The next round starts from the beginning.
  expect((await readLane(b)).found).toEqual([expired, suppressed, lost, last]);
});

test.each([
  ['expired', `update despatch.live_messages set expires_at = now() where seq > 900000000`],
  [
    'with suppressed recipients',
    `insert into despatch.suppressions (tenant_id, channel, address_key, address, reason, scope, source)
     select tenant_id, channel, decode(md5('stopped'), 'hex'), '+15550000009', 'manual', 'all', 'api'
     from despatch.live_messages limit 1;
     update despatch.live_messages set address_key = decode(md5('stopped'), 'hex') where seq > 900000000`,
  ],
  ['of a disabled account', `update despatch.provider_accounts set status = 'disabled'`],
])('a claim reads a bounded number of messages that it cannot take: %s', async (_, change) => {
  await using b = await setup();
  await b.admin.unsafe(change);
  // The messages that can be claimed come last.
  await b.admin`update despatch.live_messages set due_at = now() where seq < 900000000`;
  const connection = await b.admin.reserve();
  try {
    await connection`set search_path = despatch`;
    const store = workerStore(connection, 10_000, ADDRESS_KEYS);
    const claim = async () => void (await store.claimDue([{ ...laneOf(b), most: 100, aheadMs: 0 }], terms()));
    expect(await rowsRead(connection, claim)).toBeLessThan(6_000);
  } finally {
    connection.release();
  }
});

test('what a claim without an answer took is searched for in bounded pages, however deep its lane', async () => {
  await using b = await setup();
  const [first = 0, second = 0, postponed = 0, ...unclaimed] = b.seqs;
  await b.admin`update despatch.live_messages set due_at = 'infinity', status = 'held'
    where seq between ${900_000_001 + DEPTH / 2} and ${900_000_000 + DEPTH}`;
  await b.admin`update despatch.live_messages set due_at = now() where seq = any (${unclaimed})`;
  const claimed = await b.claimDue(3, 0);
  expect(new Set(claimed.map(({ seq }) => seq))).toEqual(new Set([first, second, postponed]));
  await b.put(second, DEPTH / 2 - 1);
  // As a review does with attempts under way.
  await b.admin`update despatch.live_messages set due_at = lease_until + interval '1 second' where seq = ${postponed}`;

  await onOneConnection(b, async (store, rowsOf) => {
    const reads: number[] = [];
    const pages: ClaimedPage[] = [];
    do {
      const read = async () => {
        const page = await store.claimedIn(
          { ...laneOf(b), aheadMs: 0 },
          terms(),
          PAGE.readsMax,
          pages.at(-1)?.next,
        );
        if (page !== 'claims_open') pages.push(page);
      };
      reads.push(await rowsOf(read));
    } while (pages.at(-1)?.next !== undefined && pages.length < PAGES);
    const found = pages.flatMap((page) => page.found.map(({ seq }) => seq));
    expect(found).toEqual([first, second, postponed]);
    // The messages that are held, and so were not due, are not read.
    expect(pages.map((page) => page.reads)).toEqual([5_000, 5_000, 5_000, 6]);
    expect(reads.filter((n) => n > PAGE.readsMax + 20)).toEqual([]);

    const byName = async () => void (await store.claimedBy(found, terms(), { isLate: false, afterSeq: 0 }));
    expect(await rowsOf(byName)).toBeLessThan(50);
  });
});

test('after a page with the maximum number of results the next one continues behind it', async () => {
  await using b = await setup();
  await b.admin`update despatch.live_messages set expires_at = now()`;
  const page = async (at?: LanePlaces) => b.store.findWaitingDue(laneOf(b), { most: 4, readsMax: 100 }, at);
  const first = await page();
  const second = await page(first.next);
  const seqs = [...first.rows, ...second.rows].map(({ seq }) => seq).toSorted((one, other) => one - other);
  expect(seqs).toEqual(b.seqs);
});

test('a search ends although its lane grows as fast as it reads, and passes equal due times', async () => {
  // All of them are due at the same instant.
  await using b = await setup({ gapMs: 0 });
  const [, expired = 0] = b.seqs;
  await b.admin`update despatch.live_messages set expires_at = now() where seq = ${expired}`;
  let from = 910_000_000;
  const grow = async () => {
    from += 10_000;
    await b.admin`
      insert into despatch.live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
        expires_at, updated_at)
      select ${from} + n, l.purge_on, l.tenant_id, l.account_id, clock_timestamp(), 'queued', l.priority, l.channel, l.test, l.pinned,
        l.expires_at + interval '1 hour', l.updated_at
      from despatch.live_messages l, generate_series(1, ${PAGE.readsMax}) n where l.seq = ${expired}`;
  };
  const round = await readLane(b, grow);
  expect(round.found).toEqual([expired]);
  expect(round.reads.length).toBeLessThanOrEqual(PAGES + 1);
});

test('new credentials wake messages deferred as provider_not_ready and read no due ones', async () => {
  await using b = await setup();
  const [, waiting = 0, throttled = 0] = b.seqs;
  for (const [seq, reason] of [
    [waiting, 'provider_not_ready'],
    [throttled, 'provider_throttled'],
  ] as const) {
    await b.admin`update despatch.live_messages set status = 'deferred', reason = ${reason},
      due_at = now() + interval '1 minute', next_attempt_at = now() + interval '1 minute' where seq = ${seq}`;
  }
  const connection = await b.admin.reserve();
  try {
    const wake = async () => void (await connection`select despatch.wake_deferred(${b.accountId})`);
    expect(await rowsRead(connection, wake)).toBeLessThan(100);
  } finally {
    connection.release();
  }
  const later = await b.admin`select seq from despatch.live_messages where next_attempt_at > now()`;
  expect(later.map(({ seq }) => Number(seq))).toEqual([throttled]);
});
