import type { KeptFile } from '../stack/kept-file.ts';
import { requireSame } from '../stack/kept-file.ts';
import { openSnapshot } from '../stack/old-snapshot.ts';
import type { World } from '../stack/stack.ts';
import type { BenchOptions } from '../options.ts';
import { meterOf, startService, type Bench } from './bench.ts';
import type { Contestant } from './contestant.ts';
import { sumLedgers, type Ledger } from './ledger.ts';
import { measureMaximum } from './maximum.ts';
import type { Meter } from './meter.ts';
import { offerUnmetered } from './offer.ts';
import { soakPlan } from './soak-plan.ts';
import { measureSlice, type SoakSlice } from './soak-slice.ts';
import { requireSpace } from './space.ts';
import { untilArrived, untilQuiet } from './until.ts';

/** The results so far, with everything that a later run needs to continue. */
export type Soak = SoakTerms & {
  readonly takenAt: string;
  /** The rate that the service sustains, before the first slice and after the last; undefined until measured. */
  sustainedBefore?: number;
  sustainedAfter?: number;
  ratePerSecond?: number;
  /** How often the services were started; more than once only in an interrupted run that was continued. */
  starts: number;
  /** Whether a slice was begun and not finished. */
  isUnderWay: boolean;
  readonly slices: SoakSlice[];
  readonly ledgers: Ledger[];
};

type SoakTerms = Pick<BenchOptions, 'soakMinutes' | 'sharePercent' | 'maximum' | 'connections'>;

export function beginSoak(options: BenchOptions): Soak {
  return {
    ...termsOf(options),
    takenAt: new Date().toISOString(),
    starts: 0,
    isUnderWay: false,
    slices: [],
    ledgers: [],
  };
}

/** @throws TypeError where the kept soak was begun with other options. */
export function requireSameSoak(kept: Soak, options: BenchOptions): void {
  requireSame('The soak', kept, termsOf(options));
}

export function isSoaked({ slices, soakMinutes, sustainedAfter }: Soak): boolean {
  return slices.length === soakPlan(soakMinutes).slices && sustainedAfter !== undefined;
}

/** Continues a soak to its end, or until `step` throws between two slices. */
export async function measureSoak(
  bench: Bench,
  kept: KeptFile<Soak>,
  step: (line: string) => void,
): Promise<void> {
  const { state } = kept;
  await using world = await bench.stack.world('bench_soak');
  await using worker = await startService(bench, world, 'worker');
  await using api = await startService(bench, world, 'api');
  const run: Run = {
    bench,
    world,
    api,
    kept,
    step,
    meter: meterOf({ bench, world, services: { api, worker }, asksVault: true }),
    pids: { api: api.pid, worker: worker.pid, ...bench.stack.pids },
  };
  if (state.isUnderWay) {
    step('soak: waiting for what the last run left behind');
    await untilQuiet(bench);
  }
  state.starts++;
  const rate = await findRate(run);
  const { slices, sliceMs } = soakPlan(state.soakMinutes);
  const left = ((slices - state.slices.length) * sliceMs * rate) / 1_000;
  await requireSpace(bench, left, 'see --share and --soak');
  await soakSlices(run, rate);
  step('soak: what the service keeps up with after it');
  state.sustainedAfter ??= await findMaximum(run);
  await kept.save();
}

type Run = {
  readonly bench: Bench;
  readonly world: World;
  readonly api: Contestant;
  readonly meter: Meter;
  readonly pids: Readonly<Record<string, number>>;
  readonly kept: KeptFile<Soak>;
  readonly step: (line: string) => void;
};

async function findRate(run: Run): Promise<number> {
  const { bench, api, kept, step } = run;
  const { options } = bench;
  const { state } = kept;
  if (state.sustainedBefore === undefined) {
    step('soak: what the service keeps up with before it');
    state.sustainedBefore = await findMaximum(run);
    state.ratePerSecond = ((options.maximum ?? state.sustainedBefore) * options.sharePercent) / 100;
    await kept.save();
  } else {
    step('soak: warming processes up that have just started');
    await bench.helpers.provider.run('reset');
    const rate = state.ratePerSecond ?? Number.NaN;
    const warm = await offerUnmetered(bench, api, { rate, warmMs: 1, measureMs: options.warmMs });
    await untilArrived(bench, warm.accepted);
  }
  return state.ratePerSecond ?? Number.NaN;
}

async function findMaximum({ bench, api, meter, kept }: Run): Promise<number> {
  const { sustainedPerSecond, ledger } = await measureMaximum(bench, api, meter);
  kept.state.ledgers.push(ledger);
  return sustainedPerSecond;
}

async function soakSlices(run: Run, rate: number): Promise<void> {
  const { bench, world, kept, step } = run;
  const { state } = kept;
  const { slices, sliceMs, snapshot } = soakPlan(state.soakMinutes);
  let reader: AsyncDisposable | undefined;
  try {
    for (let number = state.slices.length; number < slices; number++) {
      const isOld = number >= snapshot[0] && number < snapshot[1];
      step(`soak: ${number + 1} of ${slices} parts${isOld ? ', an old snapshot held open' : ''}`);
      if (isOld) reader ??= await openSnapshot(world);
      else {
        await reader?.[Symbol.asyncDispose]();
        reader = undefined;
      }
      state.isUnderWay = true;
      await kept.save();
      const { slice, ledger } = await measureSlice(bench, run, { rate, sliceMs });
      state.slices.push({ ...slice, start: state.starts, isBesideSnapshot: isOld });
      state.ledgers.push(ledger);
      state.isUnderWay = false;
      await kept.save();
    }
  } finally {
    await reader?.[Symbol.asyncDispose]();
  }
}

function termsOf({ soakMinutes, sharePercent, maximum, connections }: BenchOptions): SoakTerms {
  return { soakMinutes, sharePercent, maximum, connections };
}

export function soakLedger({ ledgers }: Soak): Ledger {
  return sumLedgers(ledgers);
}
