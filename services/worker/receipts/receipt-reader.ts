import { hasAnySurplus, hasSurplus, NO_TENANTS } from '#core/domain/queue/expected-work.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import { createLoopTurns } from '#core/platform/process/loop-turns.ts';
import type { StoredReceiptCall } from '#core/store/receipts/receipt-reports.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { reportingProviders } from '#providers/registry.ts';
import { within } from '#core/platform/process/deadline.ts';
import { doubledMs } from '#core/platform/process/pause.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { createRefusals } from '../refusals.ts';
import { callAdapter, type CallAdapterDeps } from '../accounts/call-adapter.ts';
import type { SideTurn } from '../beside-sends/side-pace.ts';
import type { ReceiptPace, ReceiptWork } from './receipt-pace.ts';
import { refusedAgainMs } from './refused-again.ts';
import { readCall, REPORT_WEIGHT, type CallReading, type ReadCallDeps } from './read-call.ts';
import {
  REPORTS_AT_ONCE,
  settleCalls,
  needsSeveralCommits,
  type ReadCall,
  type SettledPart,
} from './settle-calls.ts';

export type ReceiptReaderDeps = Omit<ReadCallDeps, 'turns' | 'ids' | 'spent'> &
  Omit<CallAdapterDeps, 'signal'> & {
    readonly loadIds: LoadIds;
    readonly store: Pick<WorkerStore, 'claimReceiptCalls' | 'settleReceiptCalls'>;
    readonly accounts: Pick<Accounts, 'inForce'>;
    readonly onRead: (provider: string, reading: CallReading, call: StoredReceiptCall) => void;
    readonly pace: ReceiptPace;
    /** Called when there may be receipts to apply. */
    readonly onSettled: () => void;
    /** Called when there may be more calls to take. */
    readonly onMore: () => void;
    /** Called when calls that were to be settled later were not; their leases end and they are taken again. */
    readonly onFailed: (error: unknown) => void;
  };

const CALLS_AT_ONCE = 200;
/** Bytes of calls and of their reports in one turn of the event loop: a few milliseconds of work. */
const BYTES_IN_A_TURN = 128 * 1024;
/** Body bytes of a batch, besides its oldest call of up to 4 MiB: a batch is settled before the next one is read. */
const BODY_BYTES_AT_ONCE = 1024 * 1024;
/** Longer than a batch takes to be judged; after the lease another worker reads the same calls. */
const LEASE_MS = 60_000;
/** Bytes of calls that are settled later, each of other tenants. With more, only small calls are taken. */
const LATER_BYTES_MAX = 16 * 1024 * 1024;
/** A body that is taken then. Its reports are few enough not to hold up others for long. */
const SMALL_BODY_BYTES = 64 * 1024;
const BODY_BYTES_MAX = 2 ** 31 - 1;
/** How long a batch waits for its calls to be read. A credential or a vendor's certificate can take many seconds. */
const READING_MS_MAX = 250;
/**
 * Minimum time between two queries while messages are sent: to query, settle and apply costs as much as some dozens of receipts.
 */
const GAP_MS = 100;
/**
 * Reports per commit of tenants with surplus. Few, because a message that is accepted or sent meanwhile waits for the processor
 * for as long as one such commit takes.
 */
const SURPLUS_REPORTS_AT_ONCE = 64;
const AGAIN = { minMs: 1_000, maxMs: 600_000 };
/**
 * About two days with growing pauses. A credential that cannot be read for so long is lost, and neither settings nor the database
 * nor the adapter are mended.
 */
const TRIES_MAX = 300;

const READABLE = reportingProviders();

type Settled = Omit<ReadCall, 'againMs'>;

/** Calls that are settled later. */
type Later = { readonly tenants: ReadonlySet<string>; readonly bytes: number };

export type ReceiptReader = {
  /**
   * Reads stored calls of vendors: verifies and parses them. Calls of tenants with surplus are settled later, in their own
   * turns, and so are calls that take several commits or long to read; until then no more calls of these tenants are taken.
   * @returns whether there may be more calls to take at once.
   */
  read(): Promise<{ readonly isFull: boolean }>;
  /** How long to wait for new calls to accumulate before the next query, in milliseconds. */
  gapMs(isSending: boolean): number;
  /** Waits for the calls that are settled later. */
  drain(): Promise<void>;
};

export function createReceiptReader(deps: ReceiptReaderDeps): ReceiptReader {
  const { store, pace } = deps;
  /** Settlements under way in the background. */
  const later = new Map<Promise<void>, Later>();
  const refusals = createRefusals();
  let lookedAt = Number.NEGATIVE_INFINITY;

  async function settle(read: readonly Settled[], reportsMax = REPORTS_AT_ONCE): Promise<void> {
    const { settled, faults } = await settleCalls(
      read.map((one) => ({ ...one, againMs: againMs(one) })),
      {
        store,
        refusals,
        againAfter: againAfterMs,
        onUnstorable: deps.onAdapterFault,
        reportsMax,
        // Only the commit waits for its turn: slow work before it, such as fetching a certificate, does not block the applying of
        // receipts.
        pace: (commit, calls) => pace.run(kindOf(calls, pace), commit, () => workOf(calls, Date.now())),
      },
    );
    for (const { call, provider, reading } of settled) deps.onRead(provider, reading, call);
    if (settled.length > 0) deps.onSettled();
    if (faults.length > 0) throw faults[0];
  }

  function settleLater(calls: readonly StoredReceiptCall[], read: Promise<readonly Settled[]>): void {
    if (calls.length === 0) return;
    const settling = read
      .then((settled) =>
        settle(settled, hasAnySurplus(pace.withSurplus()) ? SURPLUS_REPORTS_AT_ONCE : REPORTS_AT_ONCE),
      )
      .catch(deps.onFailed)
      .finally(() => {
        later.delete(settling);
        deps.onMore();
      });
    later.set(settling, { tenants: new Set(calls.map(({ tenantId }) => tenantId)), bytes: bytesOf(calls) });
  }

  const laterBytes = (): number => [...later.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  const isFull = (): boolean => laterBytes() >= LATER_BYTES_MAX;

  /** Waits while no call may be taken, not even a small one of a tenant without surplus. */
  async function roomForSome(): Promise<void> {
    while (laterBytes() >= 2 * LATER_BYTES_MAX || (isFull() && pace.withSurplus() === 'everyone'))
      await Promise.race(later.keys());
  }

  function take(onlySmall: boolean): Promise<StoredReceiptCall[]> {
    const withSurplus = onlySmall ? pace.withSurplus() : NO_TENANTS;
    const without = new Set(withSurplus === 'everyone' ? [] : withSurplus);
    for (const { tenants } of later.values()) for (const tenantId of tenants) without.add(tenantId);
    lookedAt = performance.now();
    return store.claimReceiptCalls({
      most: CALLS_AT_ONCE,
      bytesMax: BODY_BYTES_AT_ONCE,
      bodyMax: onlySmall ? SMALL_BODY_BYTES : BODY_BYTES_MAX,
      leaseMs: LEASE_MS,
      readable: READABLE,
      without: [...without],
    });
  }

  return {
    async read() {
      await roomForSome();
      const onlySmall = isFull();
      const calls = await take(onlySmall);
      if (calls.length === 0) return { isFull: false };
      const turns = createLoopTurns(BYTES_IN_A_TURN);
      const reading = { ...deps, ids: (await deps.loadIds()).messages, turns };
      const readings = calls.map((call) => beginReading(call, reading));
      await within(Promise.all(readings.map(({ end }) => end)), READING_MS_MAX, () => undefined);
      // Slow readings go on, so all are divided at the same moment.
      const slow = readings.filter(({ read }) => read === undefined);
      const judged = readings.flatMap(({ read }) => read ?? []);
      settleLater(
        slow.map(({ call }) => call),
        Promise.all(slow.map(({ end }) => end)),
      );
      const withSurplus = pace.withSurplus();
      // A call that takes several commits may give its tenant surplus after the first of them.
      const isLater = (one: Settled): boolean =>
        hasSurplus(withSurplus, one.call.tenantId) || (!onlySmall && needsSeveralCommits(one));
      const toSettleLater = judged.filter(isLater);
      settleLater(
        toSettleLater.map(({ call }) => call),
        Promise.resolve(toSettleLater),
      );
      await settle(judged.filter((one) => !isLater(one)));
      // The next call may not have fitted. A call larger than all others together is found a second later.
      return { isFull: calls.length >= CALLS_AT_ONCE || bytesOf(calls) > BODY_BYTES_AT_ONCE / 8 };
    },
    gapMs: (isSending) => (isSending ? Math.max(0, lookedAt + GAP_MS - performance.now()) : 0),
    async drain() {
      while (later.size > 0) await Promise.all(later.keys());
    },
  };
}

function bytesOf(calls: readonly StoredReceiptCall[]): number {
  return calls.reduce((sum, { body }) => sum + body.length, 0);
}

/** Commits that also contain calls of tenants without surplus do not wait for a rest. */
function kindOf(calls: readonly SettledPart[], pace: ReceiptPace): SideTurn {
  const withSurplus = pace.withSurplus();
  return calls.every(({ call }) => hasSurplus(withSurplus, call.tenantId)) ? 'surplus' : 'expected';
}

function workOf(calls: readonly SettledPart[], now: number): ReceiptWork {
  const receipts = new Map<string, number>();
  for (const { call, reports, readMs } of calls) {
    // A call without reports caused work too.
    const unreported = readMs === 0 ? 1 : Math.ceil((1 + call.body.length) / REPORT_WEIGHT);
    const work = reports === 0 ? unreported : reports;
    receipts.set(call.tenantId, (receipts.get(call.tenantId) ?? 0) + work);
  }
  return {
    receipts,
    readMs: calls.reduce((sum, { readMs }) => sum + readMs, 0),
    waitedMs: waitedMs(
      calls.map(({ call }) => call),
      now,
    ),
  };
}

/** Returns the longest wait of a call, without calls that had to be read again: those wait for a secret, not for their turn. */
function waitedMs(calls: readonly StoredReceiptCall[], now: number): number {
  return calls.reduce(
    (longest, { receivedMs, tries }) => (tries > 1 ? longest : Math.max(longest, now - receivedMs)),
    0,
  );
}

/** Returns when a call is read again that is undecided or was refused, in milliseconds; undefined for a call that is settled. */
function againMs({ reading, call }: Settled): number | undefined {
  if (reading.kind === 'forged') return refusedAgainMs(reading.reason, Date.now() - call.receivedMs);
  return reading.kind === 'undecided' ? againAfterMs(call) : undefined;
}

function againAfterMs({ tries }: StoredReceiptCall): number | undefined {
  return tries >= TRIES_MAX ? undefined : doubledMs(tries, AGAIN);
}

/** A reading under way; `read` is set once it has ended. */
type Reading = { readonly call: StoredReceiptCall; readonly end: Promise<Settled>; read?: Settled };

function beginReading(call: StoredReceiptCall, deps: Parameters<typeof readOne>[1]): Reading {
  const reading: Reading = {
    call,
    end: readOne(call, deps).then((read) => {
      reading.read = read;
      return read;
    }),
  };
  return reading;
}

async function readOne(
  call: StoredReceiptCall,
  deps: ReceiptReaderDeps & Omit<ReadCallDeps, 'spent'>,
): Promise<Settled> {
  let readMs = 0;
  const found =
    call.accountVersion === null
      ? ({ kind: 'unusable', code: 'provider_deleted' } as const)
      : await deps.accounts.inForce(call.accountId, call.accountVersion, call.receivedMs);
  if (found.kind === 'unusable' && found.code === 'provider_deleted')
    return { call, provider: 'unknown', reading: { kind: 'unreadable' }, readMs };
  if (found.kind !== 'ready') {
    // Settings and secrets can be mended. A wrong Vault decrypts the secret of no account.
    const isMisconfigured = found.kind === 'unusable' && found.code === 'config_invalid';
    return { call, provider: 'unknown', reading: { kind: 'undecided', isMisconfigured }, readMs };
  }
  const { accounts } = found;
  const spent = (ms: number): void => void (readMs += ms);
  const reading = await callAdapter<CallReading>(
    accounts[0],
    deps,
    async (_, context) => {
      const given = await readCall(call, accounts, context, { ...deps, spent });
      return given.kind === 'confirm' ? await confirm(given.url, context) : given;
    },
    // A fault of the adapter may concern every call, and the next release can mend it.
    { kind: 'undecided' },
  );
  return { call, provider: accounts[0].provider.id, reading, readMs };
}

/** Confirms a subscription by a GET to its URL: before that the vendor sends no receipts. */
async function confirm(url: string, context: ProviderContext): Promise<CallReading> {
  const result = await context.http({ method: 'GET', url, isTenantHost: true });
  const isDone = result.kind === 'response' && result.status >= 200 && result.status <= 299;
  return isDone ? { kind: 'confirm', url } : { kind: 'undecided' };
}
