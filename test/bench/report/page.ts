import type { BenchResult } from './result.ts';
import { ledgerOfResult, refusalsOf } from './result.ts';
import { sectionsOf } from './sections.ts';
import { show, table } from './text.ts';

/** Lays out a result for a terminal. */
export function layoutReport(result: BenchResult): string {
  const sections = sectionsOf(result).flatMap(({ title, lines }) => [title, '', ...lines, '']);
  return ['', ...sections, ledgerLine(result), ''].join('\n');
}

/** Lays out the page `services/PERFORMANCE.md` from the result alone. */
export function layoutPage(result: BenchResult): string {
  const [targets, ...others] = sectionsOf(result).map(({ title, lines }) => [
    `## ${title}`,
    '',
    ...lines,
    '',
  ]);
  return [
    '# Performance',
    '',
    'Written by `npm run bench -- --write`, and with `--growth` and `--soak`; do not edit. Figures of one machine: what carries',
    'over to another is the ratio of two contestants in the same round.',
    '',
    ...(targets ?? []),
    ledgerLine(result),
    '',
    ...METHOD,
    ...machineLines(result),
    ...others.flat(),
  ]
    .join('\n')
    .trimEnd()
    .concat('\n');
}

function ledgerLine(result: BenchResult): string {
  const { lost, repeated } = ledgerOfResult(result);
  const refusals = refusalsOf(result.rounds);
  return [
    `Messages lost: ${lost}. Sent twice: ${repeated}.`,
    ...(refusals.length === 0 ? [] : [`Refused: ${refusals.join('; ')}.`]),
  ].join(' ');
}

function machineLines({ machine, options, takenAt, rounds, growth }: BenchResult): string[] {
  const { versions, postgres } = machine;
  const settings = (record: Readonly<Record<string, string>>): string =>
    Object.entries(record)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ');
  return [
    '## Machine and run',
    '',
    ...table(
      ['', ''],
      [
        ['taken', takenAt.slice(0, 10)],
        ['processor', `${machine.cores} × ${machine.cpu}`],
        ['memory', show(machine.memoryBytes / 2 ** 30, 'GiB')],
        ['system', machine.system],
        [
          '8 kB written and synced',
          `p50 ${show(machine.syncP50Ms, 'ms')}, p99 ${show(machine.syncP99Ms, 'ms')}`,
        ],
        ['versions', settings(versions)],
        ['Postgres', settings(postgres)],
        [
          'rounds',
          `${rounds.length} of ${options.measureMs / 1_000} s after ${options.warmMs / 1_000} s of warm-up, seed ${options.seed}`,
        ],
        ['connections', String(options.connections)],
        ['tenants', String(options.tenants)],
        ['backlog', show(options.backlog)],
        ...(growth === null
          ? []
          : [
              [
                'growth',
                `taken ${growth.takenAt.slice(0, 10)}, ${show(growth.offeredPerSecond)} messages a second`,
              ],
            ]),
      ],
    ),
    '',
  ];
}

const METHOD = [
  '## How to read it',
  '',
  '- **found** is the median of the rounds; in brackets, between which values half of them lie. A ratio is taken within each',
  '  round, then the median of the ratios.',
  '- **µs** are microseconds of processor time that a process used for each message, from `/proc`: they hold on a busy machine',
  '  too. `postgres` is the server with all its backends, `load` the load generator, `provider` the stand-in. The processor',
  '  time of a message is the sum of api, worker, Postgres and NATS.',
  '- **to the floor** compares with what does no durable work at all: bare fastify + zod for accepting, a bare undici loop for',
  '  draining.',
  '',
  '## Method',
  '',
  '- Everything runs on one machine: load generator, api, worker, Postgres, NATS, Vault and the provider share its cores. Each',
  '  contestant has processes of its own and a fresh database on the same Postgres, which syncs every commit. The order is',
  '  another one in each round.',
  '- **Accepting**: `POST /v1/messages` with a service key and about 400 bytes, spread over the tenants, as fast as the',
  '  connections allow. A server that writes the requests of one moment together needs requests of one moment, as it has in',
  '  production: hence many connections, the same for all contestants; the figures at 64 stand beside.',
  '- **A transaction per request** is our own api with the same checks, rows and wake-ups, written one statement after the',
  '  other over a pool of ten connections. All other parts of it are the same.',
  '- **Draining**: a backlog that is already stored, until the last outcome is recorded. Every contestant makes the same HTTP',
  '  call to the same stand-in over at most 64 connections. The first fifth is the start of the processes and not counted.',
  '- **graphile-worker** fetches 500 jobs at a time and completes in batches, as its manual advises. It deletes a job that is',
  '  done, so a status row is written beside it, in batches; without it, it does less than the others. **pg-boss** fetches in',
  '  batches of 200, four loops, without a pause while batches are full; the state of its job is the status. Both check the key',
  '  against a set in memory. Limits, decrypted credentials, attempt log and events are in the figures of Despatch alone.',
  '- **WAL, statements, fsyncs, Vault calls per message** are those of accepting and of draining, added, with credentials cached.',
  '- **The bare pipeline** is the least that acceptance and delivery can be made of: fastify and zod, one INSERT for the requests',
  '  of one moment, one wake-up for them on the same stream as ours that carries all a call needs, one undici call for each',
  '  message, one UPDATE for the calls of one moment. No key, no limit, no claim, no attempt, no event, and no gathering: nothing',
  '  waits for more to come.',
  '- **At parts of the load** all contestants get the same rates in the same round: parts of what Despatch was found to keep up',
  '  with, or of `--maximum`. graphile-worker and pg-boss are given the jobs of one moment at once; both are told of new',
  '  jobs by NOTIFY. Each rate is offered for at least fifteen seconds, in which Despatch counts usage once, and after what the',
  '  load before had left to count is counted.',
  '- **Latency**: requests leave at constant distance whether or not earlier ones were answered, and their time counts from',
  '  when they were meant to leave. 100 % is what the whole service keeps up with: accepted messages of a closed loop, divided',
  '  by the time until the last of them was at the provider. The moment of acceptance is cut to the millisecond, so up to one',
  '  millisecond of "202 to provider" is not there. Cores busy are those of all processes, load generator and provider too: the',
  '  nearer to those of the machine, the more of the time is waiting for a core.',
  '- **Receipts** are calls of Twilio, signed and in its form, made ahead, and each about another message that was sent. Taken',
  '  in: stored and answered, against fastify that reads the same bytes and answers. Applied: from a stored backlog of calls',
  '  until every message is `delivered` in its record, against draining as many messages. In the storm, 100,000 of them come',
  "  to one tenant's account at a constant rate while nine others send, and between times in which those send alone.",
  '- **Events**: a receiver of its own answers 204. Told: from a stored backlog with an endpoint for each tenant until every call is',
  '  recorded, against a loop that posts the same bodies over as many connections. Beside sends, at half of what the service',
  '  keeps up with, everything is counted until nothing is left to do, so that work put off is in it: the two events of a message are',
  '  matched to an endpoint of its tenant that is paused, which has the target, or told to it, of which the calls are most: those',
  '  of the bare loop are in the table. Half load for receipts is a quarter of the same rate in sends and as many receipts. The dead one of a',
  '  hundred endpoints takes calls and never answers; each gives up after four seconds. All are well before it, and it is paused after it.',
  '- **Fairness**: nine tenants send ten messages a second each; the noisy one sends a thousand. In the control the ten send',
  '  the same total evenly, before and after the noisy one does: what the quiet ones wait for there as well is the machine, and',
  '  not their neighbour.',
  '- **Snapshot**: a transaction that sees the data as they were before the drain stays open, so nothing can be vacuumed.',
  '- **Memory**: after a forced garbage collection, objects and buffers that are still held; resident is what the system counts. The',
  '  bare loop holds as many calls, each over a connection of its own, and nothing else: no message in flight can hold less.',
  '- **An earlier state** is another checkout of the project with its own bench and servers, measured in the same rounds at the',
  '  same rates (`--beside`).',
  '- **Soak**: a constant rate in parts of a minute, each until the last of its messages is at the provider. Memory is what a',
  '  process and its children hold for themselves, without files and without what they share; flat means that the last third of',
  '  the run holds at most a twentieth more than the second third, as the first is warm-up. Autovacuum is on, with its defaults.',
  '- **Growth**: databases of all sizes stand side by side and are visited in turn, at half of what the service keeps up with.',
  '  Tenants are used unevenly (Zipf, 1.1), after each has sent one message. The history is a month of delivered messages',
  '  with attempts and events. All pages are full, in a database of a thousand messages too; a deep one is among the oldest',
  '  tenth, or the oldest 5,000. Each is read twice. The ratio is that of the second look: what is asked of the service. The',
  '  first look at messages that nobody has touched since they were filled in reads block after block from a file, and tells',
  '  how much of the files the system holds in memory; the smallest database is always there whole.',
  '- Every accepted message is looked for at the provider, or in the tables where no worker runs, every receipt that was',
  '  answered with a 2xx in the record, or among the stored calls, and every event at the receiver. One that is lost or there',
  '  twice fails the run.',
  '',
];
