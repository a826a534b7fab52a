import { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { call } from '#test/support/http-call.ts';
import { startDosTarget, type DosTarget } from './dos-target.ts';
import { openRaw } from './raw-client.ts';

const MESSAGE = { channel: 'sms', to: '+15550000001', body: 'Hello' };
/** A read of a message that does not exist: it costs one cheap query. */
const NOTHING = '/v1/messages/00000000-0000-4000-8000-000000000000/events';

let target: DosTarget;
beforeAll(async () => {
  target = await startDosTarget({
    DATABASE_READ_POOL_MAX: '4',
    DATABASE_READ_TIMEOUT_MS: '20000',
  });
});
afterAll(() => target?.[Symbol.asyncDispose]());

const send = async (key: string): Promise<number> =>
  (await call(target.api.origin, 'POST', '/v1/messages', { key, body: MESSAGE })).status;
const read = (key: string, path: string) => call(target.api.origin, 'GET', path, { key });

/** Makes every list wait for a table lock in the database while `during` runs. */
const holdLists = <T>(during: () => Promise<T>): Promise<T> =>
  target.whileLocked((tx) => tx`lock table attempt_log in access exclusive mode`, during);
const stuck = () => target.stuck();

describe('lists that hang in the database', () => {
  test('use half of the read connections and none of the send connections; too many get 503', async () => {
    const [loud, quiet] = [await target.key(), await target.key()];
    expect([await send(loud), await send(quiet)]).toEqual([202, 202]);
    const lists = await holdLists(async () => {
      const asked = Array.from({ length: 70 }, () => read(loud, '/v1/messages?status=canceled'));
      await expect.poll(stuck).toBe(2);
      for (let i = 0; i < 10; i += 1) {
        expect(await send(quiet)).toBe(202);
        expect((await read(quiet, NOTHING)).status).toBe(404);
      }
      expect(await send(loud)).toBe(202);
      expect(await stuck()).toBe(2);
      return asked;
    });
    const answers = await Promise.all(lists);
    const refused = answers.filter(({ status }) => status === 503);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(52);
    expect(refused).toHaveLength(18);
    expect(refused.filter(({ headers }) => !(Number(headers.get('retry-after')) > 0))).toEqual([]);
  });

  test('are canceled when their client disconnects', async () => {
    const key = await target.key();
    expect((await read(key, '/v1/messages')).status).toBe(200);
    await holdLists(async () => {
      for (let round = 0; round < 5; round += 1) {
        const raw = await openRaw(target.port);
        raw.socket.write(`GET /v1/messages HTTP/1.1\r\nHost: api.example\r\nX-Service-Key: ${key}\r\n\r\n`);
        await expect.poll(stuck).toBe(1);
        raw.socket.destroy();
        // Earlier than the database's own statement timeout.
        await expect.poll(stuck, { timeout: 15_000 }).toBe(0);
      }
    });
    // The connections of the pool are still usable.
    const answers = await Promise.all(Array.from({ length: 8 }, () => read(key, '/v1/messages')));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
  });
});

test(
  'a search without a match in 66,000 messages does not block sends of another tenant',
  { retry: 1 },
  async () => {
    const [loud, quiet] = [await target.key(), await target.key()];
    expect([await send(loud), await send(quiet)]).toEqual([202, 202]);
    await multiply(target.admin, 66_000);
    const neighbour = new Pool(target.api.origin, { connections: 1 });
    await using stack = new AsyncDisposableStack();
    stack.defer(() => neighbour.destroy());
    const pace = async (calls: number): Promise<number> => {
      const tookMs: number[] = [];
      for (let i = 0; i < calls; i += 1) {
        const started = performance.now();
        const { statusCode, body } = await neighbour.request({
          method: 'POST',
          path: '/v1/messages',
          headers: { 'content-type': 'application/json', 'x-service-key': quiet },
          body: JSON.stringify(MESSAGE),
        });
        await body.dump();
        expect(statusCode).toBe(202);
        tookMs.push(performance.now() - started);
      }
      return tookMs.toSorted((a, b) => a - b)[Math.floor(calls / 2)] ?? 0;
    };
    await pace(20);
    const control = await pace(50);
    const over = new AbortController();
    const search = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const { status, body } = await read(loud, '/v1/messages?status=canceled');
        expect([200, 503]).toContain(status);
        if (status === 200) expect(body).toMatchObject({ items: [], nextCursor: expect.any(String) });
      }
    };
    const searches = Promise.all(Array.from({ length: 15 }, search));
    const during = await pace(50);
    over.abort();
    await searches;
    // Generous, because the attacker runs on the same machine. An earlier version took four seconds.
    expect(during).toBeLessThan(15 * Math.max(control, 25));
  },
);

/** Copies the second newest message `times` times, each copy one millisecond older than the one before. */
async function multiply(admin: Sql, times: number): Promise<void> {
  const [first] = await admin<
    { seq: number }[]
  >`select seq from messages order by enqueued_at desc offset 1 limit 1`;
  for (const table of ['messages', 'live_messages']) {
    const columns = await admin<{ name: string }[]>`
      select attname as name from pg_attribute where attrelid = ${`despatch.${table}`}::regclass and attnum > 0
        and not attisdropped and attidentity = '' and attgenerated = ''`;
    const names = columns.map(({ name }) => name);
    const value = (name: string): string => {
      if (name === 'id') return "('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid";
      // Far below every sequence number that is reserved.
      if (name === 'seq') return 'n - 1000000';
      if (name === 'due_at') return "'infinity'";
      return name === 'enqueued_at' ? "enqueued_at - n * interval '1 millisecond'" : name;
    };
    await admin.unsafe(`insert into ${table} (${names.join(', ')}) select ${names.map(value).join(', ')}
      from ${table}, generate_series(1, ${times}) n where seq = ${first?.seq}`);
  }
  await admin`analyze messages, live_messages`;
}
