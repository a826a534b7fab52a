import { startHelper, type HelperProcess } from '../fault/helper-process.ts';
import { readLedger, type Acknowledgement } from '../fault/ledger.ts';
import type { LoadTenant } from '../fault/load-message.ts';
import type { LoadCommand, LoadReport, LoadTotals } from '../fault/load-process.ts';
import { until } from './poll.ts';
import type { OnboardedTenant } from './tenant.ts';

export const LOAD_CHANNELS = ['sms', 'push', 'whatsapp'] as const;

export type RunningLoad = AsyncDisposable & {
  readonly startedAt: number;
  /** Stops the load and waits for the outstanding answers. */
  readonly stop: () => Promise<LoadTotals>;
};

export type LoadOptions = {
  readonly origin: string;
  readonly tenants: readonly LoadTenant[];
  readonly ratePerSecond: number;
  readonly seed: number;
  /** The load appends to this ledger, which all loads of a run share. */
  readonly ledger: string;
};

/** Sends at a constant rate to the one public address, whatever the answers. */
export function startLoad({ origin, ...options }: LoadOptions): RunningLoad {
  const load: HelperProcess<LoadCommand, LoadReport> = startHelper('load-process.ts');
  const stopped = load.next('stopped');
  // `stop` reports a load that ended early.
  stopped.catch(() => {});
  load.tell({ kind: 'start', origins: [origin], canary: 'end to end', deeds: null, ...options });
  return {
    startedAt: Date.now(),
    async stop() {
      load.tell({ kind: 'stop' });
      return (await stopped).totals;
    },
    [Symbol.asyncDispose]: () => load[Symbol.asyncDispose](),
  };
}

/** Returns an onboarded tenant for the load. @param expects error codes that it is meant to provoke. */
export function loadTenant(
  { id, name, key }: OnboardedTenant,
  weight: number,
  expects: readonly string[] = [],
): LoadTenant {
  const isLimited = expects.length > 0;
  return {
    id,
    owner: null,
    credentials: [{ name, key }],
    channels: isLimited ? ['sms'] : LOAD_CHANNELS,
    weight,
    burst: 1,
    expects,
    waitedFor: null,
  };
}

/** Waits for an acknowledgement of a message that was requested after now. */
export async function untilFlowing(ledger: string): Promise<void> {
  const since = Date.now();
  await until('an acknowledgement', async () => {
    const all = await readLedger<Acknowledgement>(ledger);
    return all.some(({ firstAskedAt }) => firstAskedAt > since) ? true : undefined;
  });
}

export type LoadFigures = {
  readonly acknowledged: number;
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly slowestMs: number;
  /** Longest time between two acknowledgements. */
  readonly gapMs: number;
};

/** Returns the figures of the acknowledgements since a time, measured from the first request of each. */
export async function figuresOf(ledger: string, since: number): Promise<LoadFigures> {
  const all = (await readLedger<Acknowledgement>(ledger)).filter(({ firstAskedAt }) => firstAskedAt >= since);
  const took = all.map(({ firstAskedAt, at }) => at - firstAskedAt).toSorted((a, b) => a - b);
  const times = all.map(({ at }) => at).toSorted((a, b) => a - b);
  const gaps = times.map((at, i) => at - (times[i - 1] ?? at));
  return {
    acknowledged: all.length,
    medianMs: took[took.length >> 1] ?? 0,
    p99Ms: took[Math.floor(took.length * 0.99)] ?? 0,
    slowestMs: took.at(-1) ?? 0,
    gapMs: Math.max(0, ...gaps),
  };
}
