import { setTimeout as delay } from 'node:timers/promises';
import { fillBacklog } from './backlog.ts';
import { wallMs } from './clock.ts';
import { startContestant, type Contestant } from './contestant.ts';
import type { HelperProcess } from './helper.ts';
import type { LoadCommand, LoadEvent, LoadResult } from './load-process.ts';
import type { LoopCommand } from './loop-process.ts';
import { createMeter, type Cost, type Meter } from './meter.ts';
import type { BenchOptions } from './options.ts';
import { percentile } from './percentile.ts';
import type { ProviderCommand, ProviderResult } from './provider-process.ts';
import type { BenchStack, World } from './stack.ts';

export type Helpers = {
  readonly load: HelperProcess<LoadCommand, LoadResult, LoadEvent>;
  readonly provider: HelperProcess<ProviderCommand, ProviderResult>;
  readonly loop: HelperProcess<LoopCommand, number>;
};

export type Bench = { readonly options: BenchOptions; readonly stack: BenchStack; readonly helpers: Helpers };

export type AcceptMeasure = {
  readonly ratePerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly cost: Cost;
};

export type LatencyMeasure = {
  readonly offeredPerSecond: number;
  readonly messages: number;
  /** From `enqueuedAt`, which is cut to the millisecond, to the provider: up to a millisecond too much. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** From the moment that the request was meant to leave the client. */
  readonly fromRequestP50Ms: number;
  readonly fromRequestP99Ms: number;
};

export type DrainMeasure = {
  readonly ratePerSecond: number;
  readonly cost: Cost;
};

/** Sent to the provider and not accepted, or twice: always nothing, else the figures mean nothing. */
export type Ledger = { readonly lost: number; readonly repeated: number };

const HALF = 0.5;
/** The first part of a drain is the start of its processes. */
const UNCOUNTED_SHARE = 0.2;
/** What the worker has towards one host unless told otherwise. */
const PROVIDER_CONNECTIONS = 64;
const POLL_MS = 20;
const DRAIN_MS_MAX = 300_000;

export async function acceptFloor(bench: Bench): Promise<AcceptMeasure> {
  await using world = await bench.stack.world();
  await using floor = await startScript(bench, 'floor', 'test/bench/floor-process.ts', {});
  return await offerClosed(bench, floor, meterOf(bench, world, { api: floor.pid }));
}

export async function acceptStopped(bench: Bench): Promise<AcceptMeasure> {
  await using world = await bench.stack.world();
  await using api = await startService(bench, world, 'api');
  return await offerClosed(bench, api, meterOf(bench, world, { api: api.pid }));
}

export async function acceptTransaction(bench: Bench): Promise<AcceptMeasure> {
  await using world = await bench.stack.world();
  await using api = await startScript(bench, 'transaction', 'test/bench/transaction-process.ts', {
    ...world.environment('api'),
    OWNER_DATABASE_URL: world.ownerUrl,
  });
  return await offerClosed(bench, api, meterOf(bench, world, { api: api.pid }));
}

export type RunningMeasure = {
  readonly accept: AcceptMeasure & { readonly deliveredPerSecond: number };
  readonly latency: LatencyMeasure;
  readonly ledger: Ledger;
};

/** The whole service: as much as it takes while it delivers, then half of that at a constant rate. */
export async function running(bench: Bench): Promise<RunningMeasure> {
  const { options, helpers } = bench;
  await using world = await bench.stack.world();
  await helpers.provider.run('reset');
  await using worker = await startService(bench, world, 'worker');
  await using api = await startService(bench, world, 'api');
  const meter = meterOf(bench, world, { api: api.pid, worker: worker.pid });
  const counts: number[] = [];
  const noteCount = (): void => void helpers.provider.run('count').then(({ count }) => counts.push(count));
  const full = await offer(bench, api, meter, { onMeasuring: noteCount, onMeasured: noteCount });
  await untilCount(bench, full.result.accepted);
  const ledger = ledgerOf(full.result.accepted, await helpers.provider.run('take'));

  await helpers.provider.run('reset');
  const rate = full.result.ratePerSecond * HALF;
  const half = await helpers.load.run({ ...loadOf(bench, api), rate, connections: 4 * options.connections });
  await untilCount(bench, half.accepted);
  const taken = await helpers.provider.run('take');
  return {
    accept: {
      ...acceptMeasure(full),
      deliveredPerSecond: (((counts[1] ?? 0) - (counts[0] ?? 0)) * 1_000) / options.measureMs,
    },
    latency: latencyOf(half, taken, rate),
    ledger: add(ledger, ledgerOf(half.accepted, taken)),
  };
}

export async function drainWorker(bench: Bench): Promise<DrainMeasure & { readonly ledger: Ledger }> {
  const { options, stack, helpers } = bench;
  const { backlog } = options;
  await using world = await stack.world();
  await fillBacklog(world, stack.tenants, backlog);
  await helpers.provider.run('reset');
  await using worker = await startService(bench, world, 'worker');
  const uncounted = Math.floor(backlog * UNCOUNTED_SHARE);
  const begun = await untilCount(bench, uncounted);
  const stop = await meterOf(bench, world, { worker: worker.pid }).start();
  await untilFinished(world, backlog);
  const endedAt = wallMs();
  const cost = (await stop())(backlog - begun);
  const taken = await helpers.provider.run('take');
  return { ratePerSecond: rateOf(taken, uncounted, endedAt), cost, ledger: ledgerOf(backlog, taken) };
}

export async function drainLoop(bench: Bench): Promise<DrainMeasure> {
  const { options, helpers, stack } = bench;
  const { backlog } = options;
  await using world = await stack.world();
  await helpers.provider.run('reset');
  const { port } = await helpers.provider.run('count');
  const uncounted = Math.floor(backlog * UNCOUNTED_SHARE);
  const done = helpers.loop.run({ port, messages: backlog, connections: PROVIDER_CONNECTIONS });
  const begun = await untilCount(bench, uncounted);
  const stop = await meterOf(bench, world, { worker: helpers.loop.pid }).start();
  await done;
  const endedAt = wallMs();
  const cost = (await stop())(backlog - begun);
  return { ratePerSecond: rateOf(await helpers.provider.run('take'), uncounted, endedAt), cost };
}

// Parts --------------------------------------------------------------------------------------------------------------

async function startService(bench: Bench, world: World, role: 'api' | 'worker'): Promise<Contestant> {
  const { port } = await bench.helpers.provider.run('count');
  return startScript(bench, role, `services/${role}/main.ts`, {
    ...world.environment(role),
    ...(role === 'worker' ? { PROVIDER_BASE_URLS: `twilio=http://127.0.0.1:${port}` } : {}),
  });
}

function startScript(
  { stack, options }: Bench,
  name: string,
  script: string,
  environment: Readonly<Record<string, string>>,
): Promise<Contestant> {
  return startContestant({
    name,
    script,
    environment,
    logFolder: stack.folder,
    profileFolder: script.startsWith('services/') ? options.profileFolder : undefined,
  });
}

function meterOf({ stack, helpers }: Bench, world: World, services: Readonly<Record<string, number>>): Meter {
  const pids = { ...services, nats: stack.pids.nats, load: helpers.load.pid, provider: helpers.provider.pid };
  return createMeter({ admin: world.admin, postgresPid: stack.pids.postgres, pids });
}

function loadOf({ options, stack }: Bench, target: Contestant): LoadCommand {
  const { isIdempotent, connections, warmMs, measureMs } = options;
  const keys = stack.tenants.map(({ key }) => key);
  return { port: target.port, keys, isIdempotent, connections, warmMs, measureMs };
}

type Offered = { readonly result: LoadResult; readonly cost: Cost };
type Moments = { readonly onMeasuring?: () => void; readonly onMeasured?: () => void };

async function offerClosed(bench: Bench, target: Contestant, meter: Meter): Promise<AcceptMeasure> {
  return acceptMeasure(await offer(bench, target, meter));
}

async function offer(
  bench: Bench,
  target: Contestant,
  meter: Meter,
  moments: Moments = {},
): Promise<Offered> {
  let started: ReturnType<Meter['start']> | undefined;
  let ended: Promise<(messages: number) => Cost> | undefined;
  const result = await bench.helpers.load.run(loadOf(bench, target), (event) => {
    if (event === 'measuring') {
      started = meter.start();
      moments.onMeasuring?.();
    } else {
      ended = started?.then((end) => end());
      moments.onMeasured?.();
    }
  });
  if (ended === undefined) throw new Error('the load generator did not say when it measured');
  return { result, cost: (await ended)(result.answered) };
}

function acceptMeasure({ result, cost }: Offered): AcceptMeasure {
  const { ratePerSecond, p50Ms, p99Ms, refused } = result;
  return { ratePerSecond, p50Ms, p99Ms, refused, cost };
}

function latencyOf(load: LoadResult, taken: ProviderResult, rate: number): LatencyMeasure {
  const arrivedAt = new Map(taken.arrivals);
  const sorted = (timeOf: (sample: LoadResult['samples'][number]) => number): number[] =>
    load.samples
      .map((sample) => (arrivedAt.get(sample.n) ?? Number.NaN) - timeOf(sample))
      .filter((ms) => !Number.isNaN(ms))
      .toSorted((a, b) => a - b);
  const accepted = sorted(({ enqueuedAt }) => enqueuedAt);
  const requested = sorted(({ meantAt }) => meantAt);
  return {
    offeredPerSecond: rate,
    messages: accepted.length,
    p50Ms: percentile(accepted, 0.5),
    p99Ms: percentile(accepted, 0.99),
    fromRequestP50Ms: percentile(requested, 0.5),
    fromRequestP99Ms: percentile(requested, 0.99),
  };
}

function rateOf({ arrivals }: ProviderResult, uncounted: number, endedAt: number): number {
  const from = arrivals[uncounted]?.[1] ?? Number.NaN;
  return ((arrivals.length - uncounted) * 1_000) / (endedAt - from);
}

/** Accepted messages have the numbers that the provider saw, unless one was refused. */
function ledgerOf(accepted: number, { arrivals }: ProviderResult): Ledger {
  const distinct = new Set(arrivals.map(([n]) => n)).size;
  return { lost: Math.max(0, accepted - distinct), repeated: arrivals.length - distinct };
}

function add(a: Ledger, b: Ledger): Ledger {
  return { lost: a.lost + b.lost, repeated: a.repeated + b.repeated };
}

/** Returns the count then. What does not come in time is found missing by the ledger. */
async function untilCount({ helpers }: Bench, wanted: number): Promise<number> {
  const deadline = wallMs() + DRAIN_MS_MAX;
  for (;;) {
    const { count } = await helpers.provider.run('count');
    if (count >= wanted || wallMs() > deadline) return count;
    await delay(POLL_MS);
  }
}

async function untilFinished({ admin }: World, wanted: number): Promise<void> {
  const deadline = wallMs() + DRAIN_MS_MAX;
  for (;;) {
    const [row] = await admin<{ finished: number }[]>`
      select coalesce(sum(finished), 0)::bigint as finished from tenant_progress`;
    if ((row?.finished ?? 0) >= wanted) return;
    if (wallMs() > deadline) throw new Error(`only ${row?.finished} of ${wanted} messages were recorded`);
    await delay(POLL_MS);
  }
}
