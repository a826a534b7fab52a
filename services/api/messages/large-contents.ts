import type { TenantId } from '#core/domain/ids.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { AcceptRow } from '#core/store/acceptance.ts';

export type LargeContents = {
  /**
   * Moves a large content out of the row that is to be accepted and stores it separately.
   * @throws QueueFullError under overload; the database's error.
   */
  readonly takeApart: <Row extends AcceptRow>(row: Row) => Promise<Row>;
  /**
   * Deletes the contents of rows of one request that were then refused. What is not deleted, because of an error or because many
   * wait, is deleted later.
   */
  readonly forget: (rows: readonly AcceptRow[]) => Promise<void>;
};

export type LargeContentsDeps = {
  readonly storeContent: (row: AcceptRow, content: string) => Promise<void>;
  readonly forgetContents: (tenantId: TenantId, seqs: readonly number[]) => Promise<void>;
};

/** Each one holds a connection for the duration of a 15 MB write. */
const STORES_AT_ONCE = 2;
const WAITING_MAX = 1_000;

export function createLargeContents({ storeContent, forgetContents }: LargeContentsDeps): LargeContents {
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
  const deletions = createMicroBatch<readonly AcceptRow[], void>({
    itemsMax: 1,
    flushesMax: 1,
    queuedMax: WAITING_MAX,
    ownerOf: ([row]) => row?.tenant_id ?? '',
    async flush([rows = []]) {
      const [first] = rows;
      const seqs = rows.map(({ seq }) => seq);
      if (first !== undefined) await forgetContents(first.tenant_id as TenantId, seqs);
      return [undefined];
    },
  });
  return {
    async takeApart(row) {
      const storedBytes = await stores.add(row);
      return { ...row, content: { storedBytes } };
    },
    forget: (rows) => deletions.add(rows).catch(() => {}),
  };
}
