import { randomUUID } from 'node:crypto';
import { RECEIPT_WAKE } from '#core/domain/wake.ts';
import type { Nats } from '#core/platform/nats/broker.ts';

export type ReceiptWakes = {
  /** Calls were stored: a worker is told at once, or within `everyMs` of the last time. */
  readonly note: () => void;
  /** Tells nobody of what is still to be told; the workers' own look finds it. */
  readonly stop: () => void;
};

export type ReceiptWakesOptions = {
  readonly publishWakes: Nats['publishWakes'];
  /** Between two wake-ups, in milliseconds. Default 50: however many calls come, they cost twenty wake-ups a second. */
  readonly everyMs?: number;
};

/** Wakes a worker after calls of vendors were stored. Nobody waits for it. */
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
