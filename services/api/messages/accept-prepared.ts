import { withUnstorable, type BatchDraft, type ItemVerdict } from '#core/domain/message/batch-answer.ts';
import type { AcceptRow } from '#core/store/messages/acceptance.ts';
import type { BatchVerdicts, OwnKey } from '#core/store/messages/batch-acceptance.ts';
import type { IdempotencyClaim } from '../http/routes/idempotency.ts';
import type { BatchAccepts } from './batch-accepts.ts';
import type { LargeContents } from './large-contents.ts';
import type { Accepted } from './new-message.ts';
import type { PreparedBatch } from './prepare-batch.ts';
import { ROW_BYTES } from './send-message.ts';

export type AcceptPreparedDeps = {
  readonly batches: Pick<BatchAccepts, 'accept'>;
  readonly contents: LargeContents;
};

/** A batch to be stored in the database. */
type AskedBatch<Draft> = Pick<PreparedBatch, 'rows' | 'bytes'> & {
  readonly draft: Draft;
  /** Indexes of the rows whose contents are stored separately. */
  readonly apart: ReadonlySet<number>;
  readonly strict: boolean;
  readonly idempotency: IdempotencyClaim | null;
};

/** Large contents of one batch that are stored concurrently. */
const STORES_AT_ONCE = 2;

/**
 * Stores a batch in one commit. In a permissive batch, messages that the database cannot store are left out and marked in
 * the draft. Separately stored contents of messages that were not accepted are deleted.
 * @throws any error of `BatchAccepts`.
 */
export async function acceptPrepared<Draft extends BatchDraft<Accepted>>(
  { batches, contents }: AcceptPreparedDeps,
  tenantId: string,
  { rows, bytes, draft, apart, strict, idempotency }: AskedBatch<Draft>,
): Promise<{ readonly outcome: BatchVerdicts; readonly draft: Draft }> {
  const light: AcceptRow[] = [...rows];
  const stored = new Set<number>();
  const large = [...apart].values();
  const storeSome = async (): Promise<void> => {
    for (const i of large) {
      light[i] = await contents.takeApart(rows[i] as AcceptRow);
      stored.add(i);
    }
  };
  const forget = (indexes: Iterable<number>): void => {
    const refused = Array.from(indexes, (i) => rows[i] as AcceptRow);
    if (refused.length > 0) void contents.forget(refused);
  };
  const stores = await Promise.allSettled(Array.from({ length: STORES_AT_ONCE }, storeSome));
  const failed = stores.find((store) => store.status === 'rejected');
  if (failed !== undefined) {
    forget(stored);
    throw failed.reason;
  }
  const sizeOf = (i: number): number => ROW_BYTES + (apart.has(i) ? 0 : (bytes[i] ?? 0));

  let known = draft;
  // Indexes into all rows.
  let left: readonly number[] = [...rows.keys()];
  while (left.length > 0) {
    const own = ownKey(tenantId, idempotency, known);
    const inline = left.reduce((sum, i) => sum + sizeOf(i), 0);
    const asked = left.map((i) => light[i] as AcceptRow);
    const outcome = await batches.accept(tenantId, { rows: asked, strict, own }, inline);
    if (outcome.kind !== 'unstorable') {
      const verdicts = outcome.kind === 'settled' ? outcome.verdicts : [];
      const isKept = !strict || verdicts.every(isTaken);
      const accepted = new Set(left.filter((_, n) => isKept && verdicts[n]?.verdict === 'accepted'));
      forget([...stored].filter((i) => !accepted.has(i)));
      return { outcome, draft: known };
    }
    const refused = new Set(outcome.indexes);
    known = withUnstorable(known, refused);
    left = left.filter((_, n) => !refused.has(n));
  }
  forget(stored);
  return { outcome: { kind: 'settled', verdicts: [] }, draft: known };
}

function ownKey(tenantId: string, idempotency: IdempotencyClaim | null, draft: unknown): OwnKey | null {
  return (
    idempotency && {
      tenant_id: tenantId,
      scope: idempotency.scope.toString('hex'),
      fingerprint: idempotency.fingerprint.toString('hex'),
      draft,
    }
  );
}

function isTaken({ verdict, response }: ItemVerdict): boolean {
  return verdict === 'accepted' || (verdict === 'replayed' && response != null);
}
