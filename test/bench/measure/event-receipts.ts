import { addEndpoints } from '../stack/endpoints.ts';
import { deliveryReports, writeReceiptTexts } from '../stack/receipts.ts';
import { storeSentMessages } from '../stack/sent-messages.ts';
import { startService, type Bench, type Measured } from './bench.ts';
import { CALLS_RECEIVER } from './events.ts';
import { latenciesOf } from './latency.ts';
import { eventLedger, ledgerOf, sumLedgers } from './ledger.ts';
import { offerUnmetered } from './offer.ts';
import { TAKES_RECEIPTS } from './receipts.ts';
import { untilArrived, untilReceived } from './until.ts';

/** Rate of sends and of receipts, each in percent of the rate that the service sustains. */
const LOAD = 25;

/**
 * Measures from the answer to a provider's receipt until the tenant's endpoint is called; half of the calls are sends, half
 * receipts.
 */
export async function eventReceipts(bench: Bench, maximum = Number.NaN): Promise<Measured> {
  const { stack, helpers, options } = bench;
  const { warmMs, measureMs } = options;
  const rate = (maximum * LOAD) / 100;
  await using world = await stack.world();
  const calls = Math.ceil((rate * (warmMs + measureMs)) / 1_000) + 1;
  const messages = await storeSentMessages(world.admin, stack.tenants, calls);
  const reports = deliveryReports(messages, stack.pepper);
  const textsFile = await writeReceiptTexts(stack.folder, 'told-receipts', reports);
  const { port } = await helpers.receiver.run('reset');
  await addEndpoints(stack, world, stack.tenants, { port, eventTypes: ['message.delivered'] });
  await using services = new AsyncDisposableStack();
  const environment = { ...TAKES_RECEIPTS.environment, ...CALLS_RECEIVER.environment };
  services.use(await startService(bench, world, 'worker', { environment }));
  const api = services.use(await startService(bench, world, 'api'));
  await helpers.provider.run('reset');
  const [sent, taken] = await Promise.all([
    offerUnmetered(bench, api, { rate }),
    helpers.storm.run({
      port: api.port,
      keys: [],
      isIdempotent: false,
      textsFile,
      samplesTexts: true,
      connections: options.connections,
      rate,
      warmMs,
      measureMs,
    }),
  ]);
  await untilArrived(bench, sent.accepted);
  await untilReceived(bench, taken.accepted);
  const { arrivals } = await helpers.receiver.run('take');
  const arrivedAt = new Map(arrivals.map(({ messageId, at }) => [messageId, at]));
  const delays = taken.samples
    .map(({ n, enqueuedAt }) => (arrivedAt.get(messages[n]?.id ?? '') ?? Number.NaN) - enqueuedAt)
    .filter((ms) => !Number.isNaN(ms));
  return {
    figures: { offeredPerSecond: rate, ...latenciesOf(delays) },
    refused: taken.refused,
    ledger: sumLedgers([
      ledgerOf(sent.accepted, (await helpers.provider.run('take')).arrivals),
      eventLedger(taken.accepted, arrivals),
    ]),
  };
}
