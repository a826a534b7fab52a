import {
  countApplied,
  countAwaited,
  countCalls,
  deliveryReports,
  RECEIPT_BASE_URL,
  storeReports,
  writeReceiptTexts,
} from '../stack/receipts.ts';
import { storeSentMessages } from '../stack/sent-messages.ts';
import type { World } from '../stack/stack.ts';
import { meterOf, startProgram, startService, type Bench, type Measured } from './bench.ts';
import { wallMs } from './clock.ts';
import type { Contestant } from './contestant.ts';
import { storedLedger, type Ledger } from './ledger.ts';
import { offer } from './offer.ts';
import { untilCounted } from './until.ts';

/** Makes a worker request receipts and apply them. */
export const TAKES_RECEIPTS = { environment: { PUBLIC_BASE_URL: RECEIPT_BASE_URL } };

/** Distinct calls, sent in turn. No worker applies them during the intake, so repetition does not matter. */
const CALLS_IN_TURN = 5_000;

/** Measures fastify that reads the same bodies and does nothing else. */
export async function receiptFloor(bench: Bench): Promise<Measured> {
  await using world = await bench.stack.world();
  await using api = await startProgram(bench, world, 'receipt-floor-process.ts');
  const { accepted: _, ...measured } = await takeIn(bench, world, api);
  return measured;
}

/** Measures the intake of as many calls as the api takes, while no worker runs. */
export async function receiptIntake(bench: Bench): Promise<Measured> {
  await using world = await bench.stack.world();
  await using api = await startService(bench, world, 'api');
  const { accepted, ...measured } = await takeIn(bench, world, api);
  const stored = await countCalls(world.admin);
  return { ...measured, ledger: storedLedger(accepted, stored, measured.refused['0'] ?? 0) };
}

async function takeIn(bench: Bench, world: World, api: Contestant) {
  const { stack } = bench;
  const messages = await storeSentMessages(world.admin, stack.tenants, CALLS_IN_TURN);
  const reports = deliveryReports(messages, stack.pepper);
  const textsFile = await writeReceiptTexts(stack.folder, 'receipts', reports);
  const meter = meterOf({ bench, world, services: { api } });
  const { result, cost } = await offer(bench, api, meter, { textsFile });
  const { ratePerSecond, p50Ms, p99Ms, p999Ms, accepted, refused } = result;
  if (accepted === 0) throw new Error(`no receipt was taken in: ${JSON.stringify(refused)}`);
  return { figures: { ratePerSecond, p50Ms, p99Ms, p999Ms }, cost, refused, accepted };
}

/** The first part is the start of the process and is not counted. */
const UNCOUNTED_SHARE = 0.2;

/** Measures from a stored backlog of calls, one per message, until all of them are applied. */
export async function receiptApply(bench: Bench): Promise<Measured> {
  const { stack, options } = bench;
  const { backlog } = options;
  await using world = await stack.world();
  const messages = await storeSentMessages(world.admin, stack.tenants, backlog);
  await storeReports(world.admin, deliveryReports(messages, stack.pepper));
  const applied = async (): Promise<number> => backlog - (await countAwaited(world.admin));
  await using worker = await startService(bench, world, 'worker', TAKES_RECEIPTS);
  const meter = meterOf({ bench, world, services: { worker }, asksVault: true });
  const begun = await untilCounted(Math.floor(backlog * UNCOUNTED_SHARE), applied);
  const from = wallMs();
  const stop = await meter.start();
  await untilCounted(backlog, applied);
  const endedAt = wallMs();
  const cost = (await stop())(backlog - begun);
  const ratePerSecond = ((backlog - begun) * 1_000) / (endedAt - from);
  return { figures: { ratePerSecond }, cost, ledger: await appliedLedger(world, backlog) };
}

/** Every receipt is about another message, so each is one event. @param broken calls without an answer. */
export async function appliedLedger({ admin }: World, taken: number, broken = 0): Promise<Ledger> {
  const { events, messages } = await countApplied(admin);
  return { lost: storedLedger(taken, messages, broken).lost, repeated: events - messages };
}
