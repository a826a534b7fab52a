import { CONTESTANT_NAMES } from '../contestants.ts';
import type { Measured } from '../measure/bench.ts';
import { beginGrowth } from '../measure/growth.ts';
import type { Cost } from '../measure/meter.ts';
import type { Round } from '../measure/round.ts';
import { soakPlan } from '../measure/soak-plan.ts';
import { beginSoak, type Soak } from '../measure/soak.ts';
import { parseOptions, type BenchOptions } from '../options.ts';
import type { BenchResult } from './result.ts';

/** Returns an invented result for tests of the reports. Later rounds are slower by a tenth. */
export function sampleResult(rounds = 3): BenchResult {
  const options = parseOptions(['--seed', '7', '--rounds', String(rounds)]);
  if (options === 'help') throw new Error('the options of the sample are wrong');
  return {
    takenAt: '2030-01-02T03:04:05.000Z',
    machine: {
      cpu: 'Sample CPU',
      cores: 2,
      memoryBytes: 8 * 2 ** 30,
      system: 'Linux 6.1',
      versions: { node: '24.0.0', postgres: '18.0' },
      postgres: { fsync: 'on' },
      syncP50Ms: 0.05,
      syncP99Ms: 0.4,
    },
    options,
    rounds: Array.from({ length: rounds }, (_, i) => sampleRound(1 - i / 10)),
    growth: {
      ...beginGrowth(options, 1_000),
      takenAt: '2030-01-03T03:04:05.000Z',
      byMessages: [1_000, 10_000_000].map((messages) => ({
        database: `bench_messages_${messages}`,
        messages,
        tenants: 1_000,
        isFilled: true,
        visits: [growthVisit(messages === 1_000 ? 10 : 12)],
      })),
      byTenants: [10, 10_000].map((tenants) => ({
        database: `bench_tenants_${tenants}`,
        messages: 100_000,
        tenants,
        isFilled: true,
        visits: [growthVisit(tenants === 10 ? 10 : 13)],
      })),
      byPlanted: (['nothing', 'scheduled', 'suppressions', 'routes'] as const).map((planted, i) => ({
        database: `bench_beside_${planted}`,
        messages: 100_000,
        tenants: 1_000,
        planted,
        isFilled: true,
        visits: [growthVisit(10 + i)],
      })),
    },
    soak: sampleSoak(options),
    beside: {
      commit: 'abc1234',
      rounds: Array.from({ length: rounds }, (_, i) => sampleRound(0.5 - i / 20)),
    },
  };
}

const RATES: Readonly<Record<string, number>> = {
  floor: 16_000,
  accept: 9_000,
  acceptBatch: 30_000,
  transaction: 1_000,
  drainLoop: 14_000,
  drain: 6_000,
  drainGraphile: 4_000,
  drainBoss: 3_000,
  receiptFloor: 20_000,
  receiptIntake: 9_000,
  receiptApply: 7_000,
  eventFloor: 10_000,
  eventTell: 5_000,
};

const COST: Cost = {
  cpuUs: { api: 60, worker: 50, postgres: 40, nats: 5, provider: 70, load: 30 },
  walBytes: 1_200,
  statements: 0.02,
  fsyncs: 0.01,
  vaultCalls: 0.0001,
};

function sampleRound(speed: number): Round {
  const measured = (name: string): Measured => ({
    figures: { ratePerSecond: (RATES[name] ?? 5_000) * speed, p50Ms: 5, p99Ms: 20, p999Ms: 40 },
    cost: COST,
    ledger: { lost: 0, repeated: 0 },
    refused: {},
  });
  const round = Object.fromEntries(CONTESTANT_NAMES.map((name) => [name, measured(name)]));
  return {
    ...round,
    running: running(measured('running'), speed),
    bare: running(measured('bare'), 2 * speed),
    runningGraphile: running(measured('runningGraphile'), speed / 2),
    runningBoss: busiest(running(measured('runningBoss'), speed / 4)),
    receiptStorm: STORM,
    eventSends: eventSends(),
    eventReceipts: { figures: { offeredPerSecond: 1_000, p50Ms: 40, p99Ms: 120, p999Ms: 200 } },
    eventDead: { figures: { wellP50Ms: 30, wellP99Ms: 80, deadP50Ms: 30, deadP99Ms: 100 } },
    fairness: FAIRNESS,
    memory: MEMORY,
  };
}

function running(measured: Measured, speed: number): Measured {
  const at = (load: number): [string, number][] =>
    ['accept', 'deliver', 'request'].flatMap((what, i) =>
      ['P50', 'P99', 'P999'].map((p, j): [string, number] => [
        `at${load}.${what}${p}Ms`,
        ((2 + i) * 3 ** j * (load / 50)) / speed,
      ]),
    );
  const loads = [25, 50, 80].flatMap((load) => [
    [`at${load}.offeredPerSecond`, 40 * load * speed] as [string, number],
    [`at${load}.coresBusy`, load / 40] as [string, number],
    ...at(load),
  ]);
  const figures = { ...measured.figures, deliveredPerSecond: 3_000, sustainedPerSecond: 4_000 * speed };
  const costAt = Object.fromEntries([25, 50, 80].map((load) => [load, costTimes(50 / load / speed)]));
  return { ...measured, figures: { ...figures, ...Object.fromEntries(loads) }, costAt };
}

/** A message costs a twentieth more when its events are matched, and twice as much when they are delivered. */
function eventSends(): Measured {
  const times = { before: 0.9, matched: 1.05, told: 2, after: 1.1 };
  const phases = Object.entries(times);
  return {
    figures: {
      offeredPerSecond: 2_000,
      ...Object.fromEntries(phases.map(([phase, by]) => [`${phase}DeliverP99Ms`, 20 * by])),
    },
    costAt: Object.fromEntries(phases.map(([phase, by]) => [phase, costTimes(by)])),
  };
}

function costTimes(times: number): Cost {
  const cpuUs = Object.fromEntries(Object.entries(COST.cpuUs ?? {}).map(([name, us]) => [name, us * times]));
  return { ...COST, cpuUs };
}

/** A contestant that does not sustain the largest part of the load. */
function busiest({ figures, costAt = {}, ...measured }: Measured): Measured {
  const kept = Object.entries(figures).filter(
    ([name]) => !name.startsWith('at80.') || name === 'at80.offeredPerSecond',
  );
  const { 80: _, ...costs } = costAt;
  return { ...measured, figures: Object.fromEntries(kept), costAt: costs };
}

/** An hour in which the worker's memory grows steadily and p99 a little. */
function sampleSoak(options: BenchOptions): Soak {
  const { slices, snapshot } = soakPlan(options.soakMinutes);
  return {
    ...beginSoak(options),
    takenAt: '2030-01-04T03:04:05.000Z',
    sustainedBefore: 4_000,
    sustainedAfter: 3_900,
    ratePerSecond: 2_800,
    starts: 1,
    slices: Array.from({ length: slices }, (_, i) => ({
      start: 1,
      isBesideSnapshot: i >= snapshot[0] && i < snapshot[1],
      deliveredPerSecond: 2_800,
      figures: { acceptP99Ms: 20, deliverP50Ms: 5, deliverP99Ms: 30 + i / 100 },
      refused: {},
      cost: COST,
      memory: { api: 100e6, worker: 100e6 + i * 1e6, postgres: 200e6 },
      tables: [{ name: 'messages', liveRows: 1_000 * i, deadRows: i, bytes: 1e6 * i, vacuums: 1 }],
    })),
  };
}

const STORM: Measured = {
  figures: {
    calmAcceptP50Ms: 4,
    calmAcceptP99Ms: 10,
    calmDispatchP50Ms: 5,
    calmDispatchP99Ms: 20,
    stormAcceptP50Ms: 5,
    stormAcceptP99Ms: 14,
    stormDispatchP50Ms: 6,
    stormDispatchP99Ms: 31,
    receiptsTaken: 100_000,
    receiptsPerSecond: 2_500,
  },
};

const FAIRNESS: Measured = {
  figures: {
    aloneP50Ms: 3,
    aloneP99Ms: 10,
    besideP50Ms: 4,
    besideP99Ms: 20,
    evenP50Ms: 4,
    evenP99Ms: 18,
    behindP50Ms: 5,
    behindP99Ms: 30,
    besideJain: 0.999,
  },
};

const MEMORY: Measured = {
  figures: {
    inFlight: 4_000,
    inFlightBytes: 5 * 1_024,
    bareCallBytes: 4 * 1_024,
    inFlightResidentBytes: 9 * 1_024,
    workerTenantBytes: 3 * 1_024,
    apiTenantBytes: 2 * 1_024,
    workerResidentBytes: 120 * 2 ** 20,
    apiResidentBytes: 110 * 2 ** 20,
  },
};

function growthVisit(p99Ms: number): Record<string, number> {
  const names = ['accept', 'deliver', 'get', 'list', 'deep'];
  return {
    messageUs: 100 + 2 * p99Ms,
    ...Object.fromEntries(names.map((name) => [`${name}P99Ms`, p99Ms])),
    ...Object.fromEntries(['get', 'list', 'deep'].map((name) => [`${name}FirstP99Ms`, 3 * p99Ms])),
    ...Object.fromEntries(
      ['list', 'deep'].flatMap((name) => [
        [`${name}Blocks`, 340],
        [`${name}BlocksRead`, p99Ms],
      ]),
    ),
  };
}
