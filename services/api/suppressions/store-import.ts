import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditAction } from '#core/domain/tenant/audit-action.ts';
import type { LineRange } from '#core/domain/text/line-ranges.ts';
import { importSuppressions } from '#core/store/suppressions/imported-suppressions.ts';
import { assertActive } from '../changes/assert-active.ts';
import { changeTenant } from '../changes/change-tenant.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { MemberCaller } from '../auth/auth.ts';
import { abandoned } from '../http/errors.ts';
import type { RequestFacts } from '../http/routes/route.ts';
import { brokenOffImport } from './broken-off-import.ts';
import type { ImportSlice } from './import-slices.ts';
import { suppressionEntry } from './suppression-entry.ts';
import type { SuppressionDeps } from './suppression-routes.ts';

export type StoredImport = {
  readonly caller: MemberCaller;
  readonly request: RequestFacts;
  readonly importId: string;
  /** Number of rows that the slices have together. */
  readonly rows: number;
  /** Aborts when the client has gone; rows that are stored by then stay. */
  readonly gone: AbortSignal;
};

/** What is stored of an import so far. */
type Stored = {
  readonly rows: number;
  readonly created: number;
  readonly replaced: number;
  readonly lines?: LineRange;
};

/** After each slice the import leaves the database to others for as long as the slice took, up to this. */
const SLICE_REST_MS_MAX = 50;

/**
 * Stores the slices of an import, one after the other.
 * @throws AppError that names the stored lines.
 */
export async function storeImport(
  deps: SuppressionDeps,
  given: StoredImport,
  slices: AsyncIterable<ImportSlice>,
): Promise<Pick<Stored, 'created' | 'replaced'>> {
  let stored: Stored = { rows: 0, created: 0, replaced: 0 };
  for await (const slice of slices) {
    if (given.gone.aborted) throw abandoned();
    const startedAt = performance.now();
    try {
      stored = await storeSlice(deps, given, slice, stored);
    } catch (error) {
      throw brokenOffImport(error, stored.lines, slice.lines);
    }
    if (stored.rows < given.rows) await sleep(Math.min(performance.now() - startedAt, SLICE_REST_MS_MAX));
  }
  return stored;
}

/**
 * Stores one slice in one transaction. The audit log records the end of the import, and its beginning if it takes several slices.
 * @param before what is stored of the import before.
 */
function storeSlice(
  deps: SuppressionDeps,
  { caller, request, importId, rows }: StoredImport,
  { entries, lines }: ImportSlice,
  before: Stored,
): Promise<Stored> {
  const tenantId = caller.tenant.id;
  const suppressions = entries.map((entry) => suppressionEntry(deps.addressKeys, tenantId, 'import', entry));
  return changeTenant(deps, scopeOf(caller, request), async ({ tx, tenant, audit }) => {
    // The tenant may have been suspended or deleted since the import began.
    assertActive(tenant);
    const { created, replaced } = await importSuppressions(tenantId, tx, suppressions);
    const counts = { created: before.created + created, replaced: before.replaced + replaced };
    const done = before.rows + entries.length;
    const tell = (action: AuditAction, facts: Readonly<Record<string, number>>): Promise<void> =>
      audit(action, importId, facts, {
        changes: Object.entries(facts).map(([field, to]) => ({ field, to })),
      });
    if (done === rows) await tell('suppression.imported', { rows, ...counts });
    else if (before.rows === 0) await tell('suppression.import_begun', { rows });
    return { ...counts, rows: done, lines: { from: before.lines?.from ?? lines.from, to: lines.to } };
  });
}
