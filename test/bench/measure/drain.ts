import { fillBacklog } from '../stack/backlog.ts';
import { countFinished } from '../stack/layout.ts';
import { openSnapshot } from '../stack/old-snapshot.ts';
import type { Peer } from '../stack/peers.ts';
import type { World } from '../stack/stack.ts';
import { meterOf, startProgram, startService, type Bench, type Measured } from './bench.ts';
import { wallMs } from './clock.ts';
import type { Contestant } from './contestant.ts';
import { ledgerOf } from './ledger.ts';
import type { Meter } from './meter.ts';
import { untilArrived, untilReached } from './until.ts';

type Terms = {
  readonly fill: (world: World) => Promise<void>;
  readonly start: (bench: Bench, world: World) => Promise<Contestant>;
  readonly finished: (world: World) => Promise<number>;
  readonly isOurs?: boolean;
};

/** The first part of a drain is the start of the processes and is not counted. */
const UNCOUNTED_SHARE = 0.2;

/** Measures from a stored backlog to the provider, until the last outcome is recorded. */
async function drain(
  bench: Bench,
  world: World,
  { fill, start, finished, isOurs = false }: Terms,
): Promise<Measured> {
  const { backlog } = bench.options;
  await fill(world);
  await bench.helpers.provider.run('reset');
  await using worker = await start(bench, world);
  const meter = meterOf({ bench, world, services: { worker }, asksVault: isOurs });
  return await measureDrain(bench, meter, async () => {
    await untilArrived(bench, backlog);
    await untilReached('recorded outcomes', backlog, () => finished(world));
  });
}

async function measureDrain(bench: Bench, meter: Meter, done: () => Promise<void>): Promise<Measured> {
  const { backlog } = bench.options;
  const uncounted = Math.floor(backlog * UNCOUNTED_SHARE);
  const begun = await untilArrived(bench, uncounted);
  const stop = await meter.start();
  await done();
  const endedAt = wallMs();
  const cost = (await stop())(backlog - begun);
  const { arrivals } = await bench.helpers.provider.run('take');
  const from = arrivals[uncounted]?.[1] ?? Number.NaN;
  const ratePerSecond = ((arrivals.length - uncounted) * 1_000) / (endedAt - from);
  return { figures: { ratePerSecond }, cost, ledger: ledgerOf(backlog, arrivals) };
}

const OURS = {
  start: (bench: Bench, world: World) => startService(bench, world, 'worker'),
  finished: ({ admin }: World) => countFinished(admin),
  isOurs: true,
};

export async function drainWorker(bench: Bench): Promise<Measured> {
  const { stack, options } = bench;
  await using world = await stack.world();
  return await drain(bench, world, {
    fill: (to) => fillBacklog(to, stack.tenants, options.backlog),
    ...OURS,
  });
}

/** Measures a drain while an old snapshot keeps vacuum from removing any row that dies. */
export async function drainUnderSnapshot(bench: Bench): Promise<Measured> {
  const { stack, options } = bench;
  await using world = await stack.world();
  await fillBacklog(world, stack.tenants, options.backlog);
  await using resources = new AsyncDisposableStack();
  resources.use(await openSnapshot(world));
  return await drain(bench, world, { fill: () => Promise.resolve(), ...OURS });
}

export async function drainPeer(bench: Bench, peer: Peer): Promise<Measured> {
  await using world = await bench.stack.world();
  await peer.prepare(world);
  return await drain(bench, world, {
    fill: (to) => peer.fill(to, bench.options.backlog),
    start: (bench, world) => startProgram(bench, world, peer.worker, peer.environment),
    finished: async (of) => (await peer.count(of)).finished,
  });
}

export async function drainLoop(bench: Bench): Promise<Measured> {
  const { helpers, stack, options } = bench;
  await using world = await stack.world();
  await helpers.provider.run('reset');
  const { port } = await helpers.provider.run('count');
  const finished = helpers.loop.run({ port, messages: options.backlog });
  const meter = meterOf({ bench, world, helper: { worker: helpers.loop.pid } });
  return await measureDrain(bench, meter, async () => void (await finished));
}
