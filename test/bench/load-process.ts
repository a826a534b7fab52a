// Process that offers load over HTTP.
import { setTimeout as delay } from 'node:timers/promises';
import { wallMs } from './clock.ts';
import { openConnection } from './http-connection.ts';
import { percentile } from './percentile.ts';
import { requestTexts, type RequestTexts } from './request-text.ts';
import { answerCommands } from './helper.ts';

export type LoadCommand = {
  readonly port: number;
  readonly keys: readonly string[];
  readonly isIdempotent: boolean;
  readonly connections: number;
  readonly warmMs: number;
  readonly measureMs: number;
  /** Requests per second at constant distance; absent: each connection sends as soon as it has its answer. */
  readonly rate?: number;
};

export type LoadResult = {
  /** Answers of the measured time. */
  readonly answered: number;
  readonly ratePerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Every 202, the warm-up's too. */
  readonly accepted: number;
  /** Other answers by status; 0 is a broken connection. */
  readonly refused: Readonly<Record<string, number>>;
  /** With a rate: when each measured request was meant to leave and when the api says it took it in. */
  readonly samples: readonly Sample[];
};

export type Sample = { readonly n: number; readonly meantAt: number; readonly enqueuedAt: number };

export type LoadEvent = 'measuring' | 'measured';

type Tally = {
  accepted: number;
  readonly refused: Record<string, number>;
  readonly times: number[];
  readonly samples: Sample[];
};

answerCommands<LoadCommand, LoadResult, LoadEvent>(async (command, emit) => {
  const tally: Tally = { accepted: 0, refused: {}, times: [], samples: [] };
  const connections = Array.from({ length: command.connections }, () => openConnection(command.port));
  const texts = requestTexts(command.keys, command.isIdempotent);
  const begin = wallMs();
  const from = begin + command.warmMs;
  const until = from + command.measureMs;
  const measured = delay(command.warmMs)
    .then(() => emit('measuring'))
    .then(() => delay(command.measureMs))
    .then(() => emit('measured'));
  const run: Run = { command, connections, texts, tally, begin, from, until };
  await (command.rate === undefined ? offerClosed(run) : offerOpen(run, command.rate));
  await measured;
  for (const connection of connections) connection.close();
  const times = tally.times.toSorted((a, b) => a - b);
  return {
    answered: times.length,
    ratePerSecond: (times.length * 1_000) / command.measureMs,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    accepted: tally.accepted,
    refused: tally.refused,
    samples: tally.samples,
  };
});

type Run = {
  readonly command: LoadCommand;
  readonly connections: readonly ReturnType<typeof openConnection>[];
  readonly texts: RequestTexts;
  readonly tally: Tally;
  readonly begin: number;
  readonly from: number;
  readonly until: number;
};

/** Each connection sends as soon as it has its answer: what the service can take at most. */
async function offerClosed({ connections, texts, tally, from, until }: Run): Promise<void> {
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
            connection.send(texts.of(n++), (status) => {
              const at = wallMs();
              count(tally, status);
              if (status === 202 && at >= from && at < until) tally.times.push(at - sentAt);
              // A broken connection must not be dialled in a tight loop.
              if (status === 0) setTimeout(next, 50);
              else next();
            });
          };
          next();
        }),
    ),
  );
}

/** Requests leave at their time, or as soon after it as a connection is free; their time counts from when they were meant. */
async function offerOpen(
  { connections, texts, tally, begin, from, until }: Run,
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
        connection.send(texts.of(number), (status, body) => {
          count(tally, status);
          free.push(connection);
          if (status !== 202 || meantAt < from) return;
          tally.times.push(wallMs() - meantAt);
          const { enqueuedAt } = JSON.parse(body) as { enqueuedAt: string };
          tally.samples.push({ n: number, meantAt, enqueuedAt: Date.parse(enqueuedAt) });
        });
      }
      if (begin + n * stepMs >= until && free.length === connections.length) resolve();
      else setTimeout(pump, 1);
    };
    pump();
  });
}

function count(tally: Tally, status: number): void {
  if (status === 202) tally.accepted++;
  else tally.refused[status] = (tally.refused[status] ?? 0) + 1;
}
