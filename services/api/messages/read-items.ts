import { forEachPausing, type Pauses } from '../http/admission/pauses.ts';
import { readItem, type BatchItem } from './batch-schema.ts';

/**
 * Reads the items of a batch and pauses between them: one with many faults takes a millisecond, and single messages must not wait
 * for hundreds of them.
 */
export async function readItems(sent: readonly unknown[], pause: Pauses): Promise<BatchItem[]> {
  const items: BatchItem[] = [];
  await forEachPausing(sent, pause, (one) => void items.push(readItem(one)));
  return items;
}
