import { randomUUID } from 'node:crypto';
import { RECEIPT_WAKE } from '#core/domain/queue/wake.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';

export type ReceiptWakes = {
  /** Called after calls were stored: wakes a worker immediately, or `everyMs` after the last wake-up. */
  readonly note: () => void;
  /** Drops a pending wake-up; the workers' own poll finds the calls. */
  readonly stop: () => void;
};

export type ReceiptWakesOptions = {
  readonly publishWakes: Nats['publishWakes'];
  /**
   * Minimum interval between two wake-ups, in milliseconds. Default 50: at most twenty wake-ups a second, whatever the call
   * rate.
   */
  readonly everyMs?: number;
};

/** Wakes a worker after vendor calls were stored. The wake-up is not awaited. */
export function createReceiptWakes({ publishWakes, everyMs = 50 }: ReceiptWakesOptions): ReceiptWakes {
  let isDue = false;
  let pause: NodeJS.Timeout | undefined;

  function tell(): void {
    isDue = false;
    void publishWakes([{ kind: RECEIPT_WAKE, id: randomUUID(), payload: '' }]);
    pause = setTimeout(() => {
      pause = undefined;
      if (isDue) tell();
    }, everyMs);
    pause.unref();
  }

  return {
    note() {
      if (pause === undefined) tell();
      else isDue = true;
    },
    stop: () => clearTimeout(pause),
  };
}
