import type { ContestantName } from '../contestants.ts';
import type { GrowthPoint } from '../measure/growth.ts';
import { GROWTH_PARTS, type Planted } from '../measure/growth-parts.ts';
import { spreadOf, type Spread } from '../measure/percentile.ts';
import type { Round } from '../measure/round.ts';
import { sendRatio } from './event-lines.ts';
import { growthRatio } from './growth-figures.ts';
import { figureAt } from './load-lines.ts';
import { figureOf, ownUs, type Findings } from './result.ts';
import { soakFigures } from './soak-figures.ts';
import { ratio, row, targetsOver, type TargetRow } from './target-row.ts';

/** Compares the promises of the architecture with the results. */
export function targetsOf({ rounds, growth, soak }: Findings): TargetRow[] {
  return [
    ...costTargets(rounds),
    ...rateTargets(rounds),
    ...latencyTargets(rounds),
    ...growthTargets(growth),
    ...receiptTargets(rounds),
    ...eventTargets(rounds),
    ...targetsOver(rounds, [
      [
        "quiet tenants' p99 beside a noisy one, to the same load spread evenly",
        { atMost: 1.1 },
        'x',
        ratio('fairness/besideP99Ms', 'fairness/evenP99Ms'),
      ],
      [
        'memory per message in flight',
        { atMost: 6 },
        'KB',
        (round) => figureOf(round, 'memory/inFlightBytes') / 1_024,
      ],
    ]),
    ...soakTargets(soak),
  ];
}

const LIGHT_LOAD = 25;

function costTargets(rounds: readonly Round[]): TargetRow[] {
  const cost = (name: 'walBytes' | 'statements' | 'fsyncs' | 'vaultCalls') => (round: Round) =>
    (round.accept?.cost?.[name] ?? Number.NaN) + (round.drain?.cost?.[name] ?? Number.NaN);
  return targetsOver(rounds, [
    ['processor time per message, saturated', { atMost: 520 }, 'µs', (round) => ownUs(round, 'running')],
    [
      'processor time per message, 25 % load',
      { atMost: 1_200 },
      'µs',
      (round) => ownUs(round, 'running', LIGHT_LOAD),
    ],
    [
      'processor time per message, 25 % load, to the bare pipeline',
      { atMost: 2 },
      'x',
      (round) => ownUs(round, 'running', LIGHT_LOAD) / ownUs(round, 'bare', LIGHT_LOAD),
    ],
    ['bytes of WAL per message', { atMost: 2_000 }, '', cost('walBytes')],
    ['SQL statements per message', { atMost: 0.05 }, '', cost('statements')],
    ['fsyncs per message', { atMost: 0.05 }, '', cost('fsyncs')],
    ['Vault calls per message', { atMost: 0.001 }, '', cost('vaultCalls')],
  ]);
}

function rateTargets(rounds: readonly Round[]): TargetRow[] {
  const rate = 'ratePerSecond';
  return targetsOver(rounds, [
    [
      'sustained, accepted and called',
      { atLeast: 2_600 },
      '/s',
      (round) => figureOf(round, 'running/sustainedPerSecond'),
    ],
    ['accepted/s, to bare fastify + zod', { atLeast: 0.6 }, 'x', ratio(`accept/${rate}`, `floor/${rate}`)],
    [
      'accepted/s, to a transaction per request',
      { atLeast: 3 },
      'x',
      ratio(`accept/${rate}`, `transaction/${rate}`),
    ],
    [
      'accepted/s in batches of 500, to single requests',
      { atLeast: 2.5 },
      'x',
      ratio(`acceptBatch/${rate}`, `accept/${rate}`),
    ],
    ['drain, to a bare undici loop', { atLeast: 0.5 }, 'x', ratio(`drain/${rate}`, `drainLoop/${rate}`)],
    ['drain, to graphile-worker', { atLeast: 1.2 }, 'x', ratio(`drain/${rate}`, `drainGraphile/${rate}`)],
    ['drain, to pg-boss', { atLeast: 1.1 }, 'x', ratio(`drain/${rate}`, `drainBoss/${rate}`)],
  ]);
}

function receiptTargets(rounds: readonly Round[]): TargetRow[] {
  const rate = 'ratePerSecond';
  return targetsOver(rounds, [
    [
      'receipts taken in/s, to bare fastify',
      { atLeast: 0.5 },
      'x',
      ratio(`receiptIntake/${rate}`, `receiptFloor/${rate}`),
    ],
    ['receipts applied/s, to the drain', { atLeast: 1 }, 'x', ratio(`receiptApply/${rate}`, `drain/${rate}`)],
    [
      "others' accept p99 beside a storm of receipts, to without it",
      { atMost: 1.5 },
      'x',
      ratio('receiptStorm/stormAcceptP99Ms', 'receiptStorm/calmAcceptP99Ms'),
    ],
    [
      "others' accept to provider p99 beside it, to without it",
      { atMost: 1.5 },
      'x',
      ratio('receiptStorm/stormDispatchP99Ms', 'receiptStorm/calmDispatchP99Ms'),
    ],
  ]);
}

function eventTargets(rounds: readonly Round[]): TargetRow[] {
  const rate = 'ratePerSecond';
  return targetsOver(rounds, [
    [
      'events told/s, to a bare undici loop',
      { atLeast: 0.4 },
      'x',
      ratio(`eventTell/${rate}`, `eventFloor/${rate}`),
    ],
    [
      'processor time per message with its events matched, to without an endpoint',
      { atMost: 1.08 },
      'x',
      (round) => sendRatio(round, 'matched'),
    ],
    [
      "endpoints' p99 beside a dead one, to without it",
      { atMost: 1.2 },
      'x',
      ratio('eventDead/deadP99Ms', 'eventDead/wellP99Ms'),
    ],
  ]);
}

const PEERS = ['runningGraphile', 'runningBoss'] as const satisfies ContestantName[];

function latencyTargets(rounds: readonly Round[]): TargetRow[] {
  const percentiles = [
    { words: 'p50', figure: 'deliverP50Ms', toBare: 1.5, ms: 8 },
    { words: 'p99', figure: 'deliverP99Ms', toBare: 2, ms: 30 },
  ] as const;
  return percentiles.flatMap(({ words, figure, toBare, ms }) => {
    const at = (round: Round, name: ContestantName): number => figureAt(round, name, LIGHT_LOAD, figure);
    const name = `accept to provider call, 25 % load, ${words}`;
    const peer = (round: Round): number => {
      // A peer that does not sustain the load has no latency to compare with.
      const found = PEERS.map((one) => at(round, one)).filter((ms) => !Number.isNaN(ms));
      return found.length === 0 ? Number.NaN : Math.min(...found);
    };
    return targetsOver(rounds, [
      [name, { atMost: ms }, 'ms', (round) => at(round, 'running')],
      [
        `${name}, to the bare pipeline`,
        { atMost: toBare },
        'x',
        (round) => at(round, 'running') / at(round, 'bare'),
      ],
      [
        `${name}, to the quicker of both peers`,
        { atMost: 1 },
        'x',
        (round) => at(round, 'running') / peer(round),
      ],
    ]);
  });
}

function growthTargets(growth: Findings['growth']): TargetRow[] {
  const of = (name: string, atMost: number, reads: readonly GrowthKind[], points?: readonly GrowthPoint[]) =>
    reads.map((what) =>
      row(`${GROWTH_KINDS[what]} p99, ${name}`, { atMost }, 'x', growthRatio(points ?? [], `${what}P99Ms`)),
    );
  return [
    ...of('most messages to fewest', 1.25, ['accept', 'deliver', 'list', 'deep'], growth?.byMessages),
    ...of('most tenants to fewest', 1.15, ['accept', 'deliver'], growth?.byTenants),
    ...(['scheduled', 'suppressions', 'routes'] as const).flatMap((part) => [
      ...of(`${GROWTH_PARTS[part]}, to without`, 1.25, ['accept', 'deliver'], besideNothing(growth, part)),
      row(
        `processor time per message, ${GROWTH_PARTS[part]}, to without`,
        { atMost: COST_BESIDE[part] },
        'x',
        growthRatio(besideNothing(growth, part), 'messageUs'),
      ),
    ]),
  ];
}

/** What a message may cost beside a million planted rows, or with a route of 20 steps. */
const COST_BESIDE = { scheduled: 1.03, suppressions: 1.03, routes: 1.1 } as const;

/** Returns the database without planted rows and the one with them; an empty list where the part was not measured. */
function besideNothing(growth: Findings['growth'], part: Planted): GrowthPoint[] {
  const points = growth?.byPlanted.filter(({ planted }) => planted === 'nothing' || planted === part) ?? [];
  return points.length === 2 ? points : [];
}

const GROWTH_KINDS = {
  accept: 'accept',
  deliver: 'accept to provider',
  list: 'first page',
  deep: 'deep page',
} as const;
type GrowthKind = keyof typeof GROWTH_KINDS;

/** Memory counts as flat where no process holds a twentieth more than before. */
const FLAT = 1.05;

function soakTargets(soak: Findings['soak']): TargetRow[] {
  const found = soak === null ? undefined : soakFigures(soak);
  const memory = Object.values(found?.memory ?? {}).filter((value) => !Number.isNaN(value));
  const one = (value: number | undefined): Spread => spreadOf(value === undefined ? [] : [value]);
  return [
    row('soak: messages/s, last ten minutes to first', { atLeast: 0.95 }, 'x', one(found?.throughput)),
    row('soak: keeps up with, after to before', { atLeast: 0.95 }, 'x', one(found?.sustained)),
    row('soak: call p99, first ten minutes to last', { atLeast: 0.95 }, 'x', one(found?.deliverP99)),
    row(
      'soak: memory of the process that grew most, last third to second',
      { atMost: FLAT },
      'x',
      one(memory.length === 0 ? undefined : Math.max(...memory)),
    ),
  ];
}
