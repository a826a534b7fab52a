import { setImmediate as nextTurn } from 'node:timers/promises';
import { chunks } from '#core/domain/chunks.ts';
import type { StoredReceiptCall } from '#core/store/receipt-reports.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { ProviderCall } from '#providers/context.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { readCall, type CallReading, type ReadCallDeps } from './read-call.ts';
import { settleCalls, type ReadCall } from './settle-calls.ts';

export type ReceiptCallsDeps = ReadCallDeps & {
  readonly store: Pick<DeliveryStore, 'takeReceiptCalls' | 'settleReceiptCalls'>;
  readonly accounts: Pick<Accounts, 'inForce'>;
  readonly contextOf: (call: ProviderCall) => ProviderContext;
  readonly deadlineMs: number;
  readonly onRead: (provider: string, reading: CallReading, call: StoredReceiptCall) => void;
  /** A bug in an adapter; the call is given up. */
  readonly onAdapterFault: (provider: string, error: unknown) => void;
};

const CALLS_AT_ONCE = 200;
/** Less than a millisecond's work. */
const CALLS_IN_A_TURN = 20;
const BODY_BYTES_AT_ONCE = 8 * 1024 * 1024;
/** The api takes no larger one. */
const BODY_BYTES_MAX = 4 * 1024 * 1024;
/** Longer than the judgement of a batch takes: beyond it another worker looks into the same calls. */
const LEASE_MS = 60_000;
const AGAIN_MS_MIN = 1_000;
const AGAIN_MS_MAX = 600_000;
/** About two days with growing pauses. A credential that cannot be read for so long is gone. */
const TRIES_MAX = 300;

type Settled = Omit<ReadCall, 'againMs'>;

/**
 * Looks into stored calls of vendors: whether they are genuine, and what they say.
 * @returns how many there were, and whether they were as many as are taken at once: then there may be more.
 */
export async function readReceiptCalls(
  deps: ReceiptCallsDeps,
): Promise<{ readonly count: number; readonly isFull: boolean }> {
  const calls = await deps.store.takeReceiptCalls(CALLS_AT_ONCE, BODY_BYTES_AT_ONCE, LEASE_MS);
  if (calls.length === 0) return { count: 0, isFull: false };
  const read = await readInTurns(calls, deps);
  const settled = await settleCalls(
    read.map((one) => ({ ...one, againMs: againMs(one) })),
    { store: deps.store, onUnstorable: deps.onAdapterFault },
  );
  for (const { call, provider, reading } of settled) deps.onRead(provider, reading, call);
  const bytes = calls.reduce((sum, { body }) => sum + body.length, 0);
  // The next one may not have fitted.
  const isFull = calls.length >= CALLS_AT_ONCE || bytes > BODY_BYTES_AT_ONCE - BODY_BYTES_MAX;
  return { count: calls.length, isFull };
}

/** A turn of the event loop for each part: messages on their way to a provider do not wait for hundreds of signatures. */
async function readInTurns(calls: readonly StoredReceiptCall[], deps: ReceiptCallsDeps): Promise<Settled[]> {
  const parts = await Promise.all(
    chunks(calls, CALLS_IN_A_TURN).map(async (part, turns) => {
      for (let turn = 0; turn < turns; turn++) await nextTurn();
      return await Promise.all(part.map((call) => readOne(call, deps)));
    }),
  );
  return parts.flat();
}

/** Undefined for a call that is settled. */
function againMs({ reading, call: { tries } }: Settled): number | undefined {
  if (reading.kind !== 'undecided' || tries >= TRIES_MAX) return undefined;
  return Math.min(AGAIN_MS_MAX, AGAIN_MS_MIN * 2 ** Math.min(tries, 10));
}

async function readOne(call: StoredReceiptCall, deps: ReceiptCallsDeps): Promise<Settled> {
  const found =
    call.accountVersion === null
      ? ({ kind: 'unusable' } as const)
      : await deps.accounts.inForce(call.accountId, call.accountVersion);
  if (found.kind === 'unavailable') return { call, provider: 'unknown', reading: { kind: 'undecided' } };
  if (found.kind === 'unusable') return { call, provider: 'unknown', reading: { kind: 'unreadable' } };
  const [account] = found.accounts;
  const provider = account.provider.id;
  using deadline = new Deadline(deps.deadlineMs);
  const context = deps.contextOf({
    provider,
    accountId: account.id,
    version: account.version,
    signal: deadline.signal,
  });
  try {
    const reading = await readCall(call, found.accounts, context, deps);
    return {
      call,
      provider,
      reading: reading.kind === 'confirm' ? await confirm(reading.url, context) : reading,
    };
  } catch (error) {
    deps.onAdapterFault(provider, error);
    return { call, provider, reading: { kind: 'unreadable' } };
  }
}

/** The vendor sends nothing before somebody has asked for this address. */
async function confirm(url: string, context: ProviderContext): Promise<CallReading> {
  const result = await context.http({ method: 'GET', url, isTenantHost: true });
  const isDone = result.kind === 'response' && result.status >= 200 && result.status <= 299;
  return isDone ? { kind: 'confirm', url } : { kind: 'undecided' };
}
