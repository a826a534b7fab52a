import type { HelperProcess } from '../helper-process.ts';
import type { LoadCommand, LoadReport } from '../load-process.ts';
import type { Random } from '../random.ts';
import type { Rig } from '../rig.ts';

export type FaultContext = {
  readonly rig: Rig;
  /** Draws targets and durations; the same seed draws the same. */
  readonly random: Random;
  readonly load: HelperProcess<LoadCommand, LoadReport>;
  readonly notes: Notes;
};

/** What a fault tells the checker. Times are milliseconds since the epoch. */
export type Notes = {
  readonly revocations: { readonly credential: string; readonly at: number }[];
  readonly suspensions: { readonly tenantId: string; readonly from: number; readonly to: number }[];
  readonly secrets: { readonly name: string; readonly secret: string }[];
};

export type Injection =
  | {
      /** What was broken, for the report. */
      readonly target: string;
      /** How long the fault lasts. */
      readonly holdMs: number;
      readonly heal: () => Promise<void> | void;
    }
  /** Why the fault could not be injected on this machine or at this moment. */
  | { readonly notRun: string };

export type Fault = {
  readonly name: string;
  readonly inject: (context: FaultContext) => Promise<Injection>;
};

export const healsItself = (): void => {};
