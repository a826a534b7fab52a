import { addEndpoints, countDue, storeDueEvents, writeDuePosts } from '../stack/endpoints.ts';
import type { World } from '../stack/stack.ts';
import { meterOf, startService, type Bench, type Measured, type Measuring } from './bench.ts';
import { wallMs } from './clock.ts';
import { eventLedger } from './ledger.ts';
import { untilReached, untilReceived } from './until.ts';

/** Lets a worker call the receiver, which has no TLS and listens on a loopback address. */
export const CALLS_RECEIVER = {
  environment: { WEBHOOK_ALLOW_HTTP: 'true', EGRESS_ALLOW_CIDRS: '127.0.0.0/8' },
};

/** The worker's connection limit per origin. */
const RECEIVER_CONNECTIONS = 64;

/** The first part is the start of the process and is not counted. */
const UNCOUNTED_SHARE = 0.2;

/** Measures a loop that posts the same bodies and does nothing else. */
export async function eventFloor(bench: Bench): Promise<Measured> {
  const { stack, helpers } = bench;
  await using world = await stack.world();
  const port = await fillBacklog(bench, world);
  const postsFile = await writeDuePosts(world, stack.folder);
  const posted = helpers.post.run({ port, postsFile, connections: RECEIVER_CONNECTIONS });
  return await measureTelling(bench, { world, helper: { worker: helpers.post.pid } }, async () => {
    await posted;
  });
}

/** Measures from a stored backlog with an endpoint per tenant until the last call is recorded. */
export async function eventTell(bench: Bench): Promise<Measured> {
  const { backlog } = bench.options;
  await using world = await bench.stack.world();
  await fillBacklog(bench, world);
  await using worker = await startService(bench, world, 'worker', CALLS_RECEIVER);
  return await measureTelling(bench, { world, services: { worker }, asksVault: true }, async () => {
    await untilReceived(bench, backlog);
    await untilReached('recorded deliveries', backlog, async () => backlog - (await countDue(world.admin)));
  });
}

/** Stores a backlog and resets the receiver. @returns the receiver's port. */
async function fillBacklog({ stack, helpers, options }: Bench, world: World): Promise<number> {
  const { port } = await helpers.receiver.run('reset');
  await addEndpoints(stack, world, stack.tenants, { port });
  await storeDueEvents(world, stack.tenants, options.backlog);
  return port;
}

async function measureTelling(
  bench: Bench,
  measuring: Omit<Measuring, 'bench'>,
  done: () => Promise<void>,
): Promise<Measured> {
  const { helpers, options } = bench;
  const { helper = {}, ...others } = measuring;
  const meter = meterOf({ bench, ...others, helper: { ...helper, receiver: helpers.receiver.pid } });
  const uncounted = Math.floor(options.backlog * UNCOUNTED_SHARE);
  const begun = await untilReceived(bench, uncounted);
  const stop = await meter.start();
  await done();
  const endedAt = wallMs();
  const cost = (await stop())(options.backlog - begun);
  const { arrivals } = await helpers.receiver.run('take');
  const from = arrivals[uncounted]?.at ?? Number.NaN;
  const ratePerSecond = ((arrivals.length - uncounted) * 1_000) / (endedAt - from);
  return { figures: { ratePerSecond }, cost, ledger: eventLedger(options.backlog, arrivals) };
}
