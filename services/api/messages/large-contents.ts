import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { AcceptRow } from '#core/store/acceptance.ts';

export type LargeContents = {
  /**
   * Moves a large content out of the row that is to be accepted and stores it separately.
   * @throws QueueFullError under overload; the database's error.
   */
  readonly takeApart: <Row extends AcceptRow>(row: Row) => Promise<Row>;
  /** Deletes the content of a row that was then refused. If that fails, the content is deleted later. */
  readonly forget: (row: AcceptRow) => Promise<void>;
};

export type LargeContentsDeps = {
  readonly storeContent: (row: AcceptRow, content: string) => Promise<void>;
  readonly forgetContent: (row: AcceptRow) => Promise<void>;
};

/** Each one holds a connection for the duration of a 15 MB write. */
const STORES_AT_ONCE = 2;
const WAITING_MAX = 1_000;

export function createLargeContents({ storeContent, forgetContent }: LargeContentsDeps): LargeContents {
  const stores = createMicroBatch<AcceptRow, number>({
    itemsMax: 1,
    flushesMax: STORES_AT_ONCE,
    queuedMax: WAITING_MAX,
    ownerOf: (row) => row.tenant_id,
    async flush([row]) {
      if (row === undefined) return [];
      const content = JSON.stringify(row.content);
      await storeContent(row, content);
      return [Buffer.byteLength(content)];
    },
  });
  return {
    async takeApart(row) {
      const storedBytes = await stores.add(row);
      return { ...row, content: { storedBytes } };
    },
    forget: (row) => forgetContent(row).catch(() => {}),
  };
}
