import { isBehind } from '#core/domain/expected-work.ts';
import type { LoadIds } from '#core/domain/id-loader.ts';
import { createLoopTurns } from '#core/platform/process/loop-turns.ts';
import type { StoredReceiptCall } from '#core/store/receipt-reports.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { ProviderCall } from '#providers/context.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { reportingProviders } from '#providers/registry.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { ReceiptPace, ReceiptWork } from './receipt-pace.ts';
import { readCall, type CallReading, type ReadCallDeps } from './read-call.ts';
import { settleCalls, takesSeveral, type ReadCall, type SettledPart } from './settle-calls.ts';

export type ReceiptReaderDeps = Omit<ReadCallDeps, 'turns' | 'ids'> & {
  readonly loadIds: LoadIds;
  readonly store: Pick<DeliveryStore, 'takeReceiptCalls' | 'settleReceiptCalls'>;
  readonly accounts: Pick<Accounts, 'inForce'>;
  readonly contextOf: (call: ProviderCall) => ProviderContext;
  readonly deadlineMs: number;
  readonly onRead: (provider: string, reading: CallReading, call: StoredReceiptCall) => void;
  /** A bug in an adapter; the call is given up. */
  readonly onAdapterFault: (provider: string, error: unknown) => void;
  readonly pace: ReceiptPace;
  /** There may be receipts to apply. */
  readonly onSettled: () => void;
  /** There may be more calls to take. */
  readonly onMore: () => void;
  /** Calls that were to be settled later are not, and come again. */
  readonly onFailed: (error: unknown) => void;
  readonly now: () => number;
};

const CALLS_AT_ONCE = 200;
/** Of calls and of what they say, in one turn of the event loop: few milliseconds' work. */
const BYTES_IN_A_TURN = 128 * 1024;
/** Besides the oldest one, of up to 4 MiB: what one batch says is settled before the next one is looked into. */
const BODY_BYTES_AT_ONCE = 1024 * 1024;
/** Longer than the judgement of a batch takes: beyond it another worker looks into the same calls. */
const LEASE_MS = 60_000;
/** Of batches that are settled later, each of other tenants. */
const LATER_MAX = 4;
/** Between two looks while messages are sent: to look, settle and apply costs as much as some dozens of receipts do. */
const GAP_MS = 100;
const AGAIN_MS_MIN = 1_000;
const AGAIN_MS_MAX = 600_000;
/** About two days with growing pauses. A credential that cannot be read for so long is gone. */
const TRIES_MAX = 300;

const READABLE = reportingProviders();

type Settled = Omit<ReadCall, 'againMs'>;

export type ReceiptReader = {
  /**
   * Looks into stored calls of vendors: whether they are genuine, and what they say. What is of tenants that are behind is
   * settled later, when they have their turn, and so is what takes several commits; until then no more of theirs is taken.
   * @returns whether there may be more to take at once.
   */
  read(): Promise<{ readonly isFull: boolean }>;
  /** How long calls that have just come are left to become more, in milliseconds. */
  gapMs(isSending: boolean): number;
  /** Waits for what is settled later. */
  drain(): Promise<void>;
};

export function createReceiptReader(deps: ReceiptReaderDeps): ReceiptReader {
  const { store, pace } = deps;
  /** What is settled later, with the tenants that it is of. */
  const later = new Map<Promise<void>, ReadonlySet<string>>();
  let lookedAt = Number.NEGATIVE_INFINITY;

  async function settle(read: readonly Settled[]): Promise<void> {
    const { settled, faults } = await settleCalls(
      read.map((one) => ({ ...one, againMs: againMs(one) })),
      {
        store,
        onUnstorable: deps.onAdapterFault,
        // What takes time before, such as a certificate that is fetched, keeps nobody from applying receipts.
        pace: (commit, calls) => runnerOf(calls, pace)(commit, () => workOf(calls, deps.now())),
      },
    );
    for (const { call, provider, reading } of settled) deps.onRead(provider, reading, call);
    if (settled.length > 0) deps.onSettled();
    if (faults.length > 0) throw faults[0];
  }

  function settleLater(read: readonly Settled[]): void {
    if (read.length === 0) return;
    const settling = settle(read)
      .catch(deps.onFailed)
      .finally(() => {
        later.delete(settling);
        deps.onMore();
      });
    later.set(settling, new Set(read.map(({ call }) => call.tenantId)));
  }

  return {
    async read() {
      // Each may hold as much as is taken at once.
      if (later.size >= LATER_MAX) await Promise.race(later.keys());
      lookedAt = performance.now();
      const without = [...new Set([...later.values()].flatMap((tenants) => [...tenants]))];
      const calls = await store.takeReceiptCalls(
        CALLS_AT_ONCE,
        BODY_BYTES_AT_ONCE,
        LEASE_MS,
        READABLE,
        without,
      );
      if (calls.length === 0) return { isFull: false };
      const turns = createLoopTurns(BYTES_IN_A_TURN);
      const reading = { ...deps, ids: (await deps.loadIds()).messages, turns };
      const read = await Promise.all(calls.map((call) => readOne(call, reading)));
      const behind = pace.behind();
      // What takes several commits may be behind after the first of them.
      const isLater = (one: Settled): boolean => isBehind(behind, one.call.tenantId) || takesSeveral(one);
      settleLater(read.filter(isLater));
      await settle(read.filter((one) => !isLater(one)));
      const bytes = calls.reduce((sum, { body }) => sum + body.length, 0);
      // The next one may not have fitted. One that is larger than all others together is found a second later.
      return { isFull: calls.length >= CALLS_AT_ONCE || bytes > BODY_BYTES_AT_ONCE / 8 };
    },
    gapMs: (isSending) => (isSending ? Math.max(0, lookedAt + GAP_MS - performance.now()) : 0),
    async drain() {
      while (later.size > 0) await Promise.all(later.keys());
    },
  };
}

/** Commits that have something of others in them do not wait for a turn. */
function runnerOf(calls: readonly SettledPart[], pace: ReceiptPace): ReceiptPace['run'] {
  const behind = pace.behind();
  return calls.every(({ call }) => isBehind(behind, call.tenantId)) ? pace.runBehind : pace.run;
}

function workOf(calls: readonly SettledPart[], now: number): ReceiptWork {
  const receipts = new Map<string, number>();
  for (const { call, reports } of calls) {
    // One that says nothing was work too.
    const before = receipts.get(call.tenantId) ?? 0;
    receipts.set(call.tenantId, before + Math.max(1, reports));
  }
  return {
    receipts,
    waitedMs: waitedMs(
      calls.map(({ call }) => call),
      now,
    ),
  };
}

/** Of the call that has waited longest to be looked into for the first time. */
function waitedMs(calls: readonly StoredReceiptCall[], now: number): number {
  return calls.reduce(
    (longest, { receivedMs, tries }) => (tries > 1 ? longest : Math.max(longest, now - receivedMs)),
    0,
  );
}

/** Undefined for a call that is settled. */
function againMs({ reading, call: { tries } }: Settled): number | undefined {
  if (reading.kind !== 'undecided' || tries >= TRIES_MAX) return undefined;
  return Math.min(AGAIN_MS_MAX, AGAIN_MS_MIN * 2 ** Math.min(tries, 10));
}

async function readOne(call: StoredReceiptCall, deps: ReceiptReaderDeps & ReadCallDeps): Promise<Settled> {
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
    until: deadline.signal,
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
