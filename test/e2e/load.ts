import { startHelper, type HelperProcess } from '../fault/helper-process.ts';
import { readLedger, type Acknowledgement } from '../fault/ledger.ts';
import type { LoadTenant } from '../fault/load-message.ts';
import type { LoadCommand, LoadReport, LoadTotals } from '../fault/load-process.ts';
import { until } from './poll.ts';
import type { OnboardedTenant } from './tenant.ts';

export const LOAD_CHANNELS = ['sms', 'push', 'whatsapp'] as const;

export type RunningLoad = AsyncDisposable & {
  readonly startedAt: number;
  /** Ends it and waits for the answers that are still to come. */
  readonly stop: () => Promise<LoadTotals>;
};

export type LoadOptions = {
  readonly origin: string;
  readonly tenants: readonly LoadTenant[];
  readonly ratePerSecond: number;
  readonly seed: number;
  /** Appended to: one ledger serves all loads of a run. */
  readonly ledger: string;
};

/** Sends at a constant rate through the one address that clients know, whatever becomes of it. */
export function startLoad({ origin, ...options }: LoadOptions): RunningLoad {
  const load: HelperProcess<LoadCommand, LoadReport> = startHelper('load-process.ts');
  const stopped = load.next('stopped');
  // One that ends early is noticed when it is stopped.
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

/** What an onboarded tenant is for the load. @param expects refusals that it is there for. */
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

/** Waits until something was promised that was asked for after now. */
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

/** How acknowledgements came since a time, from the first request of each. */
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
