// Offers load over HTTP.
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { openConnection } from '../load/http-connection.ts';
import { readText, requestTexts } from '../load/request-text.ts';
import { cumulativeShares, indexAt } from '../load/shares.ts';
import { wallMs } from '../measure/clock.ts';
import { answerCommands } from '../measure/helper.ts';
import { percentile } from '../measure/percentile.ts';

export type LoadCommand = {
  readonly port: number;
  readonly keys: readonly string[];
  /** How often each key is used; absent: equally often. `in turn`: one after the other, so that every key is used. */
  readonly weights?: readonly number[] | 'in turn';
  /** Paths to read in turn, each with the index of its key. Absent: messages are sent. */
  readonly reads?: readonly (readonly [path: string, key: number])[];
  /** A file of prepared requests, sent in turn. Absent: messages are sent. */
  readonly textsFile?: string;
  /** Also takes samples of prepared requests. */
  readonly samplesTexts?: boolean;
  readonly isIdempotent: boolean;
  /** Messages per request; more than one are sent as a batch. Default 1. Counts are of requests. */
  readonly messagesEach?: number;
  readonly connections: number;
  readonly warmMs: number;
  readonly measureMs: number;
  /** Requests per second at constant intervals; absent: each connection sends when it has its answer. */
  readonly rate?: number;
};

export type LoadResult = {
  /** Successful answers within the measured time. */
  readonly answered: number;
  readonly ratePerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  /** All successful answers, including the warm-up. */
  readonly accepted: number;
  /** Other answers by status; 0 is a broken connection. */
  readonly refused: Readonly<Record<string, number>>;
  /** With `rate`: one sample for each message of the measured time. */
  readonly samples: readonly Sample[];
};

export type Sample = {
  readonly n: number;
  readonly key: number;
  /** The time at which the request was scheduled to be sent. */
  readonly meantAt: number;
  /** The acceptance time that the api returned; for a prepared request, the time of its answer. */
  readonly enqueuedAt: number;
};

export type LoadEvent = 'measuring' | 'measured';

type Tally = {
  accepted: number;
  readonly refused: Record<string, number>;
  readonly times: number[];
  readonly samples: Sample[];
};

answerCommands<LoadCommand, LoadResult, LoadEvent>(async (command, emit) => {
  const requestOf = await requestsOf(command);
  const tally: Tally = { accepted: 0, refused: {}, times: [], samples: [] };
  const connections = Array.from({ length: command.connections }, () => openConnection(command.port));
  const begin = wallMs();
  const from = begin + command.warmMs;
  const until = from + command.measureMs;
  const measured = delay(command.warmMs)
    .then(() => emit('measuring'))
    .then(() => delay(command.measureMs))
    .then(() => emit('measured'));
  const { samplesTexts = false } = command;
  const run: Run = { connections, requestOf, samplesTexts, tally, begin, from, until };
  await (command.rate === undefined ? offerClosed(run) : offerOpen(run, command.rate));
  await measured;
  for (const connection of connections) connection.close();
  const times = tally.times.toSorted((a, b) => a - b);
  return {
    answered: times.length,
    ratePerSecond: (times.length * 1_000) / command.measureMs,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    p999Ms: percentile(times, 0.999),
    accepted: tally.accepted,
    refused: tally.refused,
    samples: tally.samples,
  };
});

type Request = { readonly text: string; readonly key: number };

type Run = {
  readonly connections: readonly ReturnType<typeof openConnection>[];
  readonly requestOf: (n: number) => Request;
  readonly samplesTexts: boolean;
  readonly tally: Tally;
  readonly begin: number;
  readonly from: number;
  readonly until: number;
};

async function requestsOf(command: LoadCommand): Promise<(n: number) => Request> {
  const { keys, weights, reads, textsFile, isIdempotent, messagesEach } = command;
  if (textsFile !== undefined) {
    const texts = JSON.parse(await readFile(textsFile, 'utf8')) as string[];
    return (n) => ({ text: texts[n % texts.length] as string, key: 0 });
  }
  if (reads !== undefined) {
    const texts = reads.map(([path, key]) => ({ text: readText(path, keys[key] as string), key }));
    return (n) => texts[n % texts.length] as Request;
  }
  const texts = requestTexts(keys, isIdempotent, messagesEach);
  const keyOf = keyChoice(keys.length, weights);
  return (n) => {
    const key = keyOf(n);
    return { text: texts.of(n, key), key };
  };
}

function keyChoice(count: number, weights: LoadCommand['weights']): (n: number) => number {
  if (weights === 'in turn') return (n) => n % count;
  const shares = cumulativeShares(weights ?? Array<number>(count).fill(1));
  return () => indexAt(shares, Math.random());
}

/** Each connection sends when it has its answer: measures the maximum that the service accepts. */
async function offerClosed({ connections, requestOf, tally, from, until }: Run): Promise<void> {
  let n = 0;
  await Promise.all(
    connections.map(
      (connection) =>
        new Promise<void>((resolve) => {
          const next = (): void => {
            const sentAt = wallMs();
            if (sentAt >= until) {
              resolve();
              return;
            }
            connection.send(requestOf(n++).text, (status) => {
              const at = wallMs();
              const isGood = count(tally, status);
              if (isGood && at >= from && at < until) tally.times.push(at - sentAt);
              // Waits before it opens a broken connection again, so that it does not retry in a tight loop.
              if (status === 0) setTimeout(next, 50);
              else next();
            });
          };
          next();
        }),
    ),
  );
}

/**
 * Sends requests at their scheduled times, or when a connection becomes free after them. Latency counts from the scheduled time.
 */
async function offerOpen(
  { connections, requestOf, samplesTexts, tally, begin, from, until }: Run,
  rate: number,
): Promise<void> {
  const free = [...connections];
  const stepMs = 1_000 / rate;
  let n = 0;
  await new Promise<void>((resolve) => {
    const pump = (): void => {
      const now = wallMs();
      for (;;) {
        const meantAt = begin + n * stepMs;
        if (meantAt >= until || meantAt > now) break;
        const connection = free.pop();
        if (connection === undefined) break;
        const number = n++;
        const { text, key } = requestOf(number);
        connection.send(text, (status, body) => {
          const isGood = count(tally, status);
          free.push(connection);
          if (!isGood || meantAt < from) return;
          const answeredAt = wallMs();
          tally.times.push(answeredAt - meantAt);
          if (samplesTexts) tally.samples.push({ n: number, key, meantAt, enqueuedAt: answeredAt });
          if (status !== 202) return;
          const { enqueuedAt } = JSON.parse(body) as { enqueuedAt: string };
          tally.samples.push({ n: number, key, meantAt, enqueuedAt: Date.parse(enqueuedAt) });
        });
      }
      if (begin + n * stepMs >= until && free.length === connections.length) resolve();
      else setTimeout(pump, 1);
    };
    pump();
  });
}

function count(tally: Tally, status: number): boolean {
  const isGood = status === 202 || status === 200;
  if (isGood) tally.accepted++;
  else tally.refused[status] = (tally.refused[status] ?? 0) + 1;
  return isGood;
}
