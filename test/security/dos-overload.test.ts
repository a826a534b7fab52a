import { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startDosTarget, type DosTarget } from './dos-target.ts';

const MESSAGE = JSON.stringify({ channel: 'sms', to: '+15550000001', body: 'Hello' });
const LIMIT = 100;

type Answer = { readonly status: number; readonly retryAfter: string | undefined; readonly tookMs: number };

let target: DosTarget;
beforeAll(async () => {
  target = await startDosTarget();
});
afterAll(() => target?.[Symbol.asyncDispose]());

/** Opens a client with this many connections. */
function openClient(connections: number) {
  const pool = new Pool(target.api.origin, { connections, pipelining: 1 });
  return {
    async send(key: string): Promise<Answer> {
      const started = performance.now();
      const { statusCode, headers, body } = await pool.request({
        method: 'POST',
        path: '/v1/messages',
        headers: { 'content-type': 'application/json', 'x-service-key': key },
        body: MESSAGE,
      });
      await body.dump();
      const retryAfter = headers['retry-after'] as string | undefined;
      return { status: statusCode, retryAfter, tookMs: performance.now() - started };
    },
    [Symbol.asyncDispose]: () => pool.destroy(),
  };
}

/** Sends messages one after the other. */
async function serve(key: string, calls: number): Promise<Answer[]> {
  await using client = openClient(1);
  const answers: Answer[] = [];
  for (let i = 0; i < calls; i += 1) answers.push(await client.send(key));
  return answers;
}

/** Sends at a fixed rate whatever the api answers, until the caller stops it. @returns all the answers. */
function flood(
  key: string,
  perSecond: number,
): {
  /** Resolves at the first answer other than 202. */
  readonly refused: Promise<void>;
  stop: () => Promise<Answer[]>;
} {
  const client = openClient(100);
  const sent: Promise<Answer>[] = [];
  const refused = Promise.withResolvers<void>();
  const send = async (): Promise<Answer> => {
    const answer = await client.send(key);
    if (answer.status !== 202) refused.resolve();
    return answer;
  };
  const started = performance.now();
  const timer = setInterval(() => {
    const due = ((performance.now() - started) / 1_000) * perSecond;
    while (sent.length < due) sent.push(send());
  }, 10);
  return {
    refused: refused.promise,
    async stop() {
      clearInterval(timer);
      const answers = await Promise.all(sent);
      await client[Symbol.asyncDispose]();
      return answers;
    },
  };
}

const statusesOf = (answers: readonly Answer[]): number[] =>
  [...new Set(answers.map(({ status }) => status))].toSorted((a, b) => a - b);
/** The 90th percentile of the durations. */
const p90 = (answers: readonly Answer[]): number =>
  answers.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b)[Math.floor(answers.length * 0.9)] ?? 0;
const saysWhen = ({ status, retryAfter }: Answer): boolean => status === 202 || Number(retryAfter) > 0;
const acceptCalls = async (): Promise<number> =>
  Number(/^despatch_\w+_count\{op="accept"\} (\d+)/m.exec(await target.api.metrics())?.[1]);

describe('a tenant far beyond its limit', { retry: 1 }, () => {
  test('gets 429 without a database query, and another tenant is served as before', async () => {
    const [loud, quiet] = [await target.key({ sendRequestsPerMinute: LIMIT }), await target.key()];
    await serve(quiet, 20);
    const control = await serve(quiet, 100);
    const flooding = flood(loud, 400);
    await flooding.refused;
    const during = await serve(quiet, 100);
    const refused = await serve(loud, 1);
    const answers = await flooding.stop();
    expect([statusesOf(during), statusesOf(refused), statusesOf(answers)]).toEqual([
      [202],
      [429],
      [202, 429],
    ]);
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(LIMIT);
    expect(answers.filter((one) => !saysWhen(one))).toEqual([]);
    // Generous, because the attacker runs on the same machine.
    expect(p90(during)).toBeLessThan(15 * Math.max(p90(control), 25));

    const asked = await acceptCalls();
    expect(asked).toBeGreaterThan(0);
    expect(statusesOf(await serve(loud, 30))).toEqual([429]);
    expect(await acceptCalls()).toBe(asked);
  });
});

describe('ten times the load that the database can commit', () => {
  /** The api runs two batches of 128 against the database at once. */
  const COMMIT_S = 1;
  const CAPACITY = (2 * 128) / COMMIT_S;

  test('from one tenant is shed with 503 at once, with bounded memory, while another tenant is served', async () => {
    const limits = { sendRequestsPerMinute: 60_000, messagesPerDay: 1_000_000 };
    const [loud, quiet] = [await target.key(limits), await target.key()];
    await using client = openClient(10 * CAPACITY);
    await serve(quiet, 5);
    await serve(loud, 1);
    const before = await target.memoryMib();
    await slowCommits(COMMIT_S);
    const burst = Array.from({ length: 10 * CAPACITY }, () => client.send(loud));
    // The first refusal: the tenant's share (half of the room) is full while the database has hardly begun.
    const first = await Promise.any(
      burst.map(async (answer) => {
        const { status } = await answer;
        if (status !== 503) throw new Error('Not refused');
        return status;
      }),
    );
    const during = (await Promise.all(Array.from({ length: 20 }, () => serve(quiet, 1)))).flat();
    const peak = await target.memoryMib();
    const answers = await Promise.all(burst);
    await slowCommits(0);

    expect([first, statusesOf(during), statusesOf(answers)]).toEqual([503, [202], [202, 503]]);
    expect(answers.filter((one) => !saysWhen(one))).toEqual([]);
    expect(peak - before).toBeLessThan(300);
    expect(statusesOf(await serve(quiet, 10))).toEqual([202]);
  });
});

async function slowCommits(seconds: number): Promise<void> {
  const { admin } = target;
  await admin.unsafe(`create or replace function public.be_slow() returns trigger language plpgsql as
    $$ begin perform pg_catalog.pg_sleep(${seconds}); return null; end $$`);
  if (seconds > 0) {
    await admin`create trigger be_slow before insert on messages for each statement execute function public.be_slow()`;
  } else await admin`drop trigger be_slow on messages`;
}
