import { NO_TENANTS, type ExpectedWork, type TenantsWithSurplus } from '#core/domain/queue/expected-work.ts';
import {
  createSidePace,
  type DoneSideWork,
  type SidePaceDeps,
  type SideTurn,
} from '../beside-sends/side-pace.ts';

/** The extent of a piece of work on receipts. */
export type ReceiptWork = Omit<DoneSideWork, 'surplus'> & {
  /** Number of receipts by tenant. */
  readonly receipts: ReadonlyMap<string, number>;
};

export type ReceiptPaceDeps = Omit<SidePaceDeps, 'kind'> & { readonly expected: ExpectedWork };

/**
 * Paces work on receipts. While messages are sent, one piece of work runs at a time. Expected receipts are handled at once. After
 * work on surplus receipts a rest is left to messages, and the tenants of the surplus wait until the rest is over.
 */
export type ReceiptPace = {
  /** Runs work in its turn; `surplus` is work on receipts of tenants with surplus, or of everyone. */
  readonly run: <Result>(
    turn: SideTurn,
    work: () => Promise<Result>,
    workOf: (result: Result) => ReceiptWork,
  ) => Promise<Result>;
  /** Returns the tenants whose receipts must wait for the rests; none while no messages are sent. */
  readonly withSurplus: () => TenantsWithSurplus;
};

export function createReceiptPace({ expected, isSending, signal }: ReceiptPaceDeps): ReceiptPace {
  const pace = createSidePace({ kind: 'receipts', isSending, signal });

  function doneOf({ receipts, ...done }: ReceiptWork): DoneSideWork {
    const all = [...receipts.values()].reduce((sum, some) => sum + some, 0);
    return { ...done, surplus: expected.use(receipts, performance.now()) / Math.max(1, all) };
  }

  return {
    run: (turn, work, workOf) => pace(turn, work, (result) => doneOf(workOf(result))),
    withSurplus: () => (isSending() ? expected.withSurplus(performance.now()) : NO_TENANTS),
  };
}
