import type { LoadCommand, LoadResult } from '../processes/load-process.ts';
import type { Bench } from './bench.ts';
import type { Contestant } from './contestant.ts';
import type { Cost, Meter } from './meter.ts';

export type Offered = { readonly result: LoadResult; readonly cost: Cost };

export type Offer = Partial<
  Pick<
    LoadCommand,
    'weights' | 'reads' | 'textsFile' | 'messagesEach' | 'connections' | 'rate' | 'warmMs' | 'measureMs'
  >
> & {
  /** Default: the keys of the stack's tenants. */
  readonly keys?: readonly string[];
  readonly onMeasuring?: () => void;
  readonly onMeasured?: () => void;
};

/** Offers load and reads the meter after the warm-up and at the end. */
export async function offer(
  bench: Bench,
  target: Contestant,
  meter: Meter,
  wanted: Offer = {},
): Promise<Offered> {
  const { onMeasuring, onMeasured, ...terms } = wanted;
  let started: ReturnType<Meter['start']> | undefined;
  let ended: Promise<(messages: number) => Cost> | undefined;
  const result = await bench.helpers.load.run(commandOf(bench, target, terms), (event) => {
    if (event === 'measuring') {
      started = meter.start();
      onMeasuring?.();
    } else {
      ended = started?.then((end) => end());
      onMeasured?.();
    }
  });
  if (ended === undefined) throw new Error('the load generator did not say when it measured');
  return { result, cost: (await ended)(result.answered * (wanted.messagesEach ?? 1)) };
}

/** Offers load without a meter. */
export function offerUnmetered(bench: Bench, target: Contestant, wanted: Offer): Promise<LoadResult> {
  return bench.helpers.load.run(commandOf(bench, target, wanted));
}

/** At a constant rate there are four times as many connections, because waiting for a free one counts as latency. */
const OPEN_LOOP_CONNECTIONS = 4;

function commandOf({ options, stack }: Bench, { port }: Contestant, wanted: Offer): LoadCommand {
  const { isIdempotent, connections, warmMs, measureMs } = options;
  return {
    port,
    keys: stack.tenants.map(({ key }) => key),
    isIdempotent,
    connections: wanted.rate === undefined ? connections : OPEN_LOOP_CONNECTIONS * connections,
    warmMs,
    measureMs,
    ...wanted,
  };
}
