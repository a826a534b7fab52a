import {
  addEndpoints,
  countDue,
  countMatched,
  countNumbered,
  removeEndpoints,
  type BenchEndpoint,
} from '../stack/endpoints.ts';
import { countFinished } from '../stack/layout.ts';
import { meterOf, startService, type Bench, type Measured } from './bench.ts';
import { CALLS_RECEIVER } from './events.ts';
import { openLoopFigures } from './latency.ts';
import { eventLedger, ledgerOf, sumLedgers, type Ledger } from './ledger.ts';
import type { Cost } from './meter.ts';
import { offerUnmetered } from './offer.ts';
import { untilArrived, untilReached } from './until.ts';

/** In percent of the rate that the whole service sustains. */
const LOAD = 50;
/** Events per message: one for its acceptance, one for the send. */
const EVENTS_PER_MESSAGE = 2;

/**
 * Phases of the measurement: without endpoints; with paused endpoints, so that events are matched and wait; with endpoints that
 * are called. The phase without endpoints comes first and last, so that drift affects both sides of the comparison.
 */
const PHASES = ['before', 'matched', 'told', 'after'] as const;
export type SendPhase = (typeof PHASES)[number];
/** A warm-up phase that is not counted, because processes cost more under their first load. */
const FIRST = 'told';

/**
 * Measures the same sends with and without an endpoint per tenant that subscribes to all types. The cost includes all work that
 * follows from a message.
 */
export async function eventSends(bench: Bench, maximum = Number.NaN): Promise<Measured> {
  const { stack, helpers } = bench;
  await using world = await stack.world();
  await using services = new AsyncDisposableStack();
  const worker = services.use(await startService(bench, world, 'worker', CALLS_RECEIVER));
  const api = services.use(await startService(bench, world, 'api'));
  const { receiver } = helpers;
  const meter = meterOf({
    bench,
    world,
    services: { api, worker },
    helper: { receiver: receiver.pid },
    asksVault: true,
  });
  const rate = (maximum * LOAD) / 100;
  const figures: Record<string, number> = { offeredPerSecond: rate };
  const costAt: { [Phase in SendPhase]?: Cost } = {};
  const ledgers: Ledger[] = [];
  let sent = 0;

  const send = async (phase: SendPhase, endpoints: readonly BenchEndpoint[]): Promise<void> => {
    await Promise.all([helpers.provider.run('reset'), receiver.run('reset')]);
    const stop = await meter.start();
    const result = await offerUnmetered(bench, api, { rate });
    sent += result.accepted;
    const events = EVENTS_PER_MESSAGE * result.accepted;
    await untilArrived(bench, result.accepted);
    await untilReached('recorded outcomes', sent, () => countFinished(world.admin));
    await untilReached('numbered events', EVENTS_PER_MESSAGE * sent, () =>
      countNumbered(world.admin, stack.tenants),
    );
    if (endpoints.length > 0)
      await untilReached('matched events', events, () => countMatched(world.admin, endpoints));
    if (phase === 'told') await untilReached('told events', 0, async () => -(await countDue(world.admin)));
    costAt[phase] = (await stop())(result.accepted);
    const { arrivals } = await helpers.provider.run('take');
    figures[`${phase}DeliverP99Ms`] = openLoopFigures(result, arrivals)['deliverP99Ms'] ?? Number.NaN;
    ledgers.push(ledgerOf(result.accepted, arrivals));
    if (phase === 'told') ledgers.push(eventLedger(events, (await receiver.run('take')).arrivals));
  };

  const { port } = await receiver.run('count');
  for (const phase of [FIRST, ...PHASES] as const) {
    await removeEndpoints(world);
    const status = phase === 'told' ? 'active' : 'paused';
    const isWithout = phase === 'before' || phase === 'after';
    await send(phase, isWithout ? [] : await addEndpoints(stack, world, stack.tenants, { port, status }));
  }
  return { figures, costAt, ledger: sumLedgers(ledgers) };
}
