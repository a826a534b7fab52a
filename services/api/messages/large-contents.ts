import type { TenantId } from '#core/domain/storage/ids.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { AcceptRow } from '#core/store/messages/acceptance.ts';

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

type Refused = { readonly tenantId: TenantId; readonly seqs: readonly number[] };

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
  const deletions = createMicroBatch<Refused, void>({
    itemsMax: 1,
    flushesMax: 1,
    queuedMax: WAITING_MAX,
    ownerOf: ({ tenantId }) => tenantId,
    async flush([refused]) {
      if (refused !== undefined) await forgetContents(refused.tenantId, refused.seqs);
      return [undefined];
    },
  });
  return {
    async takeApart(row) {
      const storedBytes = await stores.add(row);
      return { ...row, content: { storedBytes } };
    },
    async forget(rows) {
      const [first] = rows;
      if (first === undefined) return;
      // Not the rows: their contents would stay in memory while they wait.
      const refused = { tenantId: first.tenant_id as TenantId, seqs: rows.map(({ seq }) => seq) };
      await deletions.add(refused).catch(() => {});
    },
  };
}
