import { addEndpoints, moveEndpoint, pauseEndpoint } from '../stack/endpoints.ts';
import { startService, type Bench, type Measured } from './bench.ts';
import { CALLS_RECEIVER } from './events.ts';
import { latenciesOf, type Latencies } from './latency.ts';
import { eventLedger, ledgerOf, sumLedgers, type Ledger } from './ledger.ts';
import { offerUnmetered } from './offer.ts';
import { untilArrived, untilReceived } from './until.ts';

const TENANTS_MAX = 50;
/** Endpoints per tenant: the tenant of the dead endpoint has healthy ones too. */
const ENDPOINTS = 100;
const SENDS_PER_SECOND = 100;
/** Events per message: one for its acceptance, one for the send. */
const EVENTS_PER_MESSAGE = 2;
/** In a shorter phase the dead endpoint would not fail any call. */
const MEASURE_MS_MIN = 8_000;
/** A shorter deadline than in production, so that a phase contains both hanging calls and their consequences. */
const ENVIRONMENT = { ...CALLS_RECEIVER.environment, WEBHOOK_DEADLINE_MS: '4000' };

/**
 * Delivers the events of messages at a constant rate to a hundred endpoints: while all are healthy, while one accepts calls and
 * never answers, and after that one was paused.
 */
export async function eventDead(bench: Bench): Promise<Measured> {
  const { stack, helpers, options } = bench;
  const { receiver } = helpers;
  const tenants = stack.tenants.slice(0, TENANTS_MAX);
  const perTenant = Math.ceil(ENDPOINTS / tenants.length);
  await using world = await stack.world();
  const { port, deadPort } = await receiver.run('reset');
  const owners = Array.from({ length: perTenant }, () => tenants).flat();
  const [dying] = await addEndpoints(stack, world, owners, { port });
  if (dying === undefined) throw new Error('there is no tenant with an endpoint');
  await using services = new AsyncDisposableStack();
  services.use(await startService(bench, world, 'worker', { environment: ENVIRONMENT }));
  const api = services.use(await startService(bench, world, 'api'));

  const phase = async (isDead: boolean): Promise<Phase> => {
    await Promise.all([receiver.run('reset'), helpers.provider.run('reset')]);
    const from = Date.now() + options.warmMs;
    const { accepted } = await offerUnmetered(bench, api, {
      keys: tenants.map(({ key }) => key),
      weights: 'in turn',
      rate: SENDS_PER_SECOND,
      measureMs: Math.max(options.measureMs, MEASURE_MS_MIN),
    });
    await untilArrived(bench, accepted);
    // Keys are used in turn: the first tenant has at most one message more than the others.
    const ofDying = isDead ? Math.ceil(accepted / tenants.length) : 0;
    const due = EVENTS_PER_MESSAGE * (perTenant * accepted - ofDying);
    await untilReceived(bench, due);
    const { arrivals } = await receiver.run('take');
    const others = arrivals.filter(({ path }) => path !== dying.path);
    const delays = others
      .filter(({ happenedAt }) => happenedAt >= from)
      .map(({ at, happenedAt }) => at - happenedAt);
    return {
      delays,
      ledger: sumLedgers([
        ledgerOf(accepted, (await helpers.provider.run('take')).arrivals),
        eventLedger(due, arrivals),
      ]),
    };
  };

  const before = await phase(false);
  await moveEndpoint(world, dying.id, deadPort);
  const beside = await phase(true);
  await pauseEndpoint(world, dying.id);
  const after = await phase(true);
  const well = latencies([...before.delays, ...after.delays]);
  const dead = latencies(beside.delays);
  return {
    figures: {
      wellP50Ms: well.p50Ms,
      wellP99Ms: well.p99Ms,
      deadP50Ms: dead.p50Ms,
      deadP99Ms: dead.p99Ms,
    },
    ledger: sumLedgers([before, beside, after].map(({ ledger }) => ledger)),
  };
}

type Phase = { readonly delays: readonly number[]; readonly ledger: Ledger };

function latencies(delays: readonly number[]): Latencies {
  return latenciesOf(delays);
}
