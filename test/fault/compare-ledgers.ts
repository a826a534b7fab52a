import { DAY_MS } from '#core/domain/text/duration.ts';
import type { ApiClient, Caller } from '../../deploy/quickstart/api-client.ts';
import { createChecker, type Checked, type CheckInput } from './check.ts';
import type { ShownMessage } from './case.ts';
import type { Notes } from './faults/fault.ts';
import {
  readLedger,
  type Acknowledgement,
  type Cancellation,
  type ProviderCall,
  type ReceivedEvent,
  type Suppression,
  type TakenReceipt,
} from './ledger.ts';
import { checkEndpoint, checkSilentEvents } from './check-events.ts';
import { RECEIPT_TIMEOUT_MS } from './receipt-habits.ts';
import { miscounts } from '../support/usage-recount.ts';
import {
  countRest,
  eachRecord,
  feedHoles,
  numberRest,
  readEndpoints,
  type MessageRecord,
} from './records.ts';
import type { Rig } from './rig.ts';
import type { Violation } from './violations.ts';

export type Comparison = {
  readonly checked: Checked;
  readonly events: number;
  readonly endings: readonly Violation[];
};

const SAMPLE_MAX = 200;

/**
 * Reads the public API while it still runs, ends all processes, and compares the ledgers.
 * @param end ends all processes and returns what went wrong.
 */
export async function compareLedgers(
  rig: Rig,
  {
    ledger,
    cancelLedger,
    suppressionLedger,
    begunAt,
    decidedBy,
    notes,
  }: {
    readonly ledger: string;
    readonly cancelLedger: string;
    readonly suppressionLedger: string;
    readonly begunAt: number;
    /** Every receipt timeout that had passed by this time was decided before the routes lost theirs. */
    readonly decidedBy: number;
    readonly notes: Notes;
  },
  end: () => Promise<Violation[]>,
): Promise<Comparison> {
  const { ask, providerLedger, receiptLedger, tenants } = rig;
  const acknowledgements = await readLedger<Acknowledgement>(ledger);
  const shown = await readSample(rig, acknowledgements);
  const endings = await end();
  await ask(numberRest);
  await ask(countRest);
  const checker = createChecker({
    acknowledgements,
    cancels: await readLedger<Cancellation>(cancelLedger),
    suppressions: await readLedger<Suppression>(suppressionLedger),
    calls: await readLedger<ProviderCall>(providerLedger),
    receipts: await readLedger<TakenReceipt>(receiptLedger),
    limits: {
      daily: { tenantId: tenants.limited.id, max: tenants.perDay },
      days: Math.floor(Date.now() / DAY_MS) - Math.floor(begunAt / DAY_MS) + 1,
      perMinute: { tenantId: tenants.slow.id, max: tenants.perMinute },
    },
    waits: {
      tenantIds: new Set(tenants.waitedFor.map(({ id }) => id)),
      timeoutMs: RECEIPT_TIMEOUT_MS,
      decidedBy,
    },
    feedHoles: await ask(feedHoles),
    miscounts: await ask(miscounts),
    shown,
    ...notes,
  });
  const silent: MessageRecord[] = [];
  await ask((sql) =>
    eachRecord(sql, (record) => {
      checker.visit(record);
      if (record.silences.length > 0) silent.push(record);
    }),
  );
  const silentOf = Map.groupBy(silent, ({ tenantId }) => tenantId);
  const received = await readLedger<ReceivedEvent>(rig.eventLedger);
  const events = Map.groupBy(received, ({ endpointId }) => endpointId);
  const endpoints = await ask(readEndpoints);
  const untold = endpoints.flatMap((endpoint) => {
    const came = events.get(endpoint.id) ?? [];
    return [
      ...checkEndpoint(endpoint, came),
      ...checkSilentEvents(endpoint, came, silentOf.get(endpoint.tenantId) ?? []),
    ];
  });
  return { checked: checker.conclude(), events: received.length, endings: [...endings, ...untold] };
}

/** Reads a sample of the acknowledged messages through the public API. */
async function readSample(
  { insist, tenants }: Rig,
  acknowledgements: readonly Acknowledgement[],
): Promise<CheckInput['shown']> {
  const step = Math.max(1, Math.floor(acknowledgements.length / SAMPLE_MAX));
  const keys = new Map(tenants.all.map(({ id, credentials }) => [id, credentials[0]?.key ?? '']));
  const shown = new Map<string, ShownMessage>();
  for (const { id, tenantId } of acknowledgements.filter((_, i) => i % step === 0)) {
    const caller = { serviceKey: keys.get(tenantId) ?? '' };
    const message = await insist((client) => readMessage(client, caller, id));
    // A deferred message may finish before the database is read, so its state here proves nothing.
    if (message !== null && message.status !== 'deferred') shown.set(id, message);
  }
  return shown;
}

/** @returns null where the message does not exist, which the check of its record reports. @throws when no api answers. */
async function readMessage(client: ApiClient, caller: Caller, id: string): Promise<ShownMessage | null> {
  const { status, body } = await client.ask(caller, 'GET', `/v1/messages/${id}`);
  if (status === 404) return null;
  if (status !== 200) throw new Error(`reading a message was answered with ${status}`);
  return body as ShownMessage;
}
