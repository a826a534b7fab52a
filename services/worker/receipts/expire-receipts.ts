import { RECEIPT_TIMEOUT_MS } from '#core/domain/sending/settle.ts';
import type { SilentMessages } from '#core/store/receipts/lookups.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';

export type ExpireReceiptsDeps = {
  readonly store: Pick<WorkerStore, 'expireReceipts'>;
  /** Providers that can be asked about a message. */
  readonly askable: readonly string[];
  /** Called with the messages that were given up, by account. */
  readonly onSilent: (silent: readonly SilentMessages[]) => void;
  /** Called when messages may have to be looked up. */
  readonly onSeen: () => void;
  /** Called after each full batch. */
  readonly onBatch: () => void;
};

const AT_ONCE = 200;

/** Ends the waits for receipts that are over: messages are looked up if their provider can be asked, else given up. */
export async function expireReceipts({
  store,
  askable,
  onSilent,
  onSeen,
  onBatch,
}: ExpireReceiptsDeps): Promise<void> {
  for (;;) {
    const { seen, silent } = await store.expireReceipts(AT_ONCE, askable, RECEIPT_TIMEOUT_MS);
    onSilent(silent);
    if (seen > 0) onSeen();
    if (seen < AT_ONCE) return;
    onBatch();
  }
}
