import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { AppError, validationFailed } from '#core/domain/fault/app-error.ts';
import { newId } from '#core/domain/storage/ids.ts';
import { lineRangesText, type LineRange } from '#core/domain/text/line-ranges.ts';
import { unknownField, type Warning, type Warnings } from '#core/domain/fault/warning.ts';
import { importSuppressions } from '#core/store/suppressions/imported-suppressions.ts';
import type { NewSuppression } from '#core/store/suppressions/suppressions.ts';
import { assertActive } from '../changes/assert-active.ts';
import { changeTenant } from '../changes/change-tenant.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { MemberCaller } from '../auth/auth.ts';
import { abandoned, toAppError } from '../http/errors.ts';
import { createPauses } from '../http/admission/pauses.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RequestFacts, RouteModule } from '../http/routes/route.ts';
import type { Upload } from '../http/input/upload.ts';
import { createImportFaults, NAMED_FAULTS_MAX, type ImportFaults } from './import-faults.ts';
import { CSV, importRows, NDJSON } from './import-rows.ts';
import { suppressionEntry, type CheckedSuppression } from './suppression-entry.ts';
import type { SuppressionDeps } from './suppression-routes.ts';
import { AddSuppression } from './suppression-schema.ts';

const BYTES_MAX = 15 * 1024 * 1024;
const ROWS_MAX = 100_000;
/** Rows of one transaction, for whose locks others may have to wait. */
const SLICE_ROWS = 1_000;
/** Turns and pauses on the event loop, which sends share. */
const [WORK_MS, REST_FOR] = [2, 1];
/** After each slice the import leaves the database to others for as long as the slice took, up to this. */
const SLICE_REST_MS_MAX = 50;

const count = z.int().min(0).max(ROWS_MAX);
/** A file has at most as many lines as bytes. */
const line = z.int().min(1).max(BYTES_MAX);

const ImportedSuppressions = z
  .object({
    importId: z.uuid().describe('Id of the import in the audit log.'),
    received: count.describe('Number of rows read: the sum of the following four.'),
    created: count.describe('Number of new entries.'),
    replaced: count.describe('Number of entries that replaced one for the same recipient and reason.'),
    unchanged: count.describe(
      'Rows that changed nothing: they equal an entry of the list, or cover less than an entry by the recipient or a provider, or a later row is for the same recipient and reason, or their `expiresAt` has passed.',
    ),
    invalid: count.describe('Number of invalid rows, with `mode=permissive`.'),
    invalidLines: z
      .array(z.object({ from: line, to: line }).meta({ id: 'LineRange', description: 'Consecutive lines.' }))
      .describe('All invalid rows, by the lines on which they begin: from 1, both ends included.'),
    errors: z
      .array(
        z
          .object({
            line,
            field: z.string(),
            rule: z.string().describe('The broken rule, for programs.'),
            message: z.string().describe('The rule, for people.'),
          })
          .meta({ id: 'ImportError', description: 'A broken rule of one row.' }),
      )
      .max(NAMED_FAULTS_MAX)
      .describe('Faults of the first invalid rows.'),
    ...warningsField,
  })
  .meta({
    id: 'ImportedSuppressions',
    description: 'Result of the rows of an import.',
    examples: [
      {
        importId: '0d5c9a3e-6b1f-4f0e-8c57-1a2b3c4d5e6f',
        received: 3,
        created: 1,
        replaced: 0,
        unchanged: 1,
        invalid: 1,
        invalidLines: [{ from: 4, to: 4 }],
        errors: [
          { line: 4, field: 'address', rule: 'address', message: 'Must be a recipient of the channel sms' },
        ],
      },
    ],
  });
type ImportedSuppressions = z.output<typeof ImportedSuppressions>;

const EXAMPLES = {
  [NDJSON]:
    '{"channel":"email","address":"ann@example.com","reason":"unsubscribe"}\n{"channel":"sms","address":"+15550000001"}\n',
  [CSV]: 'channel,address,reason\nemail,ann@example.com,unsubscribe\nsms,+15550000001,\n',
};

const DESCRIPTION = `One entry per row, at most 100,000 rows and 15 MiB: one JSON object per line, with the fields of \`POST /v1/admin/suppressions\`, or text/csv (RFC 4180) with these names in its first line. \`channel\` and \`address\` are required; additional fields of an export are ignored.

All rows are read before the first is stored. If one is invalid, nothing is imported, and the answer lists each invalid row; \`mode=permissive\` imports the others. Rows are stored in their order, a thousand in each transaction: if the database fails during the import, the error lists which rows are stored. Repeating the same import changes nothing of what is stored. A process of the api runs one import of a tenant at a time, and few in all: another one waits up to 20 seconds, and is then 503 with \`Retry-After\`. An import ends if its client disconnects before the answer; rows stored by then stay. A hundred thousand rows take ten seconds to a minute.`;

export function importSuppressionsRoute(deps: SuppressionDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/suppressions/import',
    operation: 'importSuppressions',
    summary: 'Suppress the recipients of a file',
    description: DESCRIPTION,
    tag: 'Suppressions',
    auth: { kind: 'bearer', role: 'developer' },
    query: z.object({
      mode: z
        .enum(['strict', 'permissive'])
        .default('strict')
        .describe('`strict`: all rows or none. `permissive`: the valid rows.'),
    }),
    upload: { types: EXAMPLES, bytesMax: BYTES_MAX },
    status: 200,
    response: ImportedSuppressions,
    handler: async ({ caller, query: { mode }, upload, warnings, request, gone }) => {
      const signal = gone();
      const leave = await deps.imports.take(caller.tenant.id, signal);
      try {
        const given: Given = { upload: upload as Upload, now: Date.now(), gone: signal };
        const { received, expired, faults } = await check(given, warnings);
        if (received === 0)
          throw validationFailed({ field: 'body', rule: 'min', message: 'Must have a row' });
        if (faults.rows() > 0 && mode === 'strict') throw faults.error();
        const importId = newId();
        const scope = { caller, request, importId };
        if (expired > 0) warnings.add(expiredRows(expired));
        const { created, replaced } = await store(deps, given, scope, received - faults.rows() - expired);
        return {
          body: {
            importId,
            received,
            created,
            replaced,
            unchanged: received - faults.rows() - created - replaced,
            invalid: faults.rows(),
            invalidLines: [...faults.lines()],
            errors: [...faults.named()],
          },
        };
      } finally {
        leave();
      }
    },
  });
}

/**
 * The upload is parsed twice, once to check all rows and once to store them: parsed rows take ten times their bytes in memory.
 */
type Given = {
  readonly upload: Upload;
  readonly now: number;
  /** Aborts when the client has gone; the import then gives up its slot. */
  readonly gone: AbortSignal;
};

/** Checks all rows. @throws AppError where the file cannot be parsed into rows or has too many. */
async function check(
  { upload, now, gone }: Given,
  warnings: Warnings,
): Promise<{ readonly received: number; readonly expired: number; readonly faults: ImportFaults }> {
  const faults = createImportFaults();
  const unknown = new Set<string>();
  const onUnknown = (name: string): void => {
    if (unknown.size > UNKNOWN_MAX || unknown.has(name)) return;
    unknown.add(name);
    warnings.add(unknownField('', name, Object.keys(AddSuppression.shape)).warning);
  };
  const pause = createPauses(WORK_MS, REST_FOR);
  let [received, expired] = [0, 0];
  for (const row of importRows(upload, { now, onUnknown })) {
    received += 1;
    if (received > ROWS_MAX) {
      throw new AppError('payload_too_large', { message: `An import has at most ${ROWS_MAX} rows` });
    }
    if ('faults' in row) faults.add(row.line, row.faults);
    else if (row.isOver) expired += 1;
    const resting = pause();
    if (resting !== undefined) await resting;
    if (gone.aborted) throw abandoned();
  }
  return { received, expired, faults };
}

/** An entry of an export may have expired since. It blocks nobody, so the rest of the file is imported without it. */
function expiredRows(expired: number): Warning {
  const message = `Ignored ${expired === 1 ? 'a row whose expiry has' : `${expired} rows whose expiry has`} passed`;
  return { field: 'expiresAt', message };
}

/** Bound on remembered names of unknown fields; it is more than the warnings list. */
const UNKNOWN_MAX = 100;

type ImportScope = {
  readonly caller: MemberCaller;
  readonly request: RequestFacts;
  readonly importId: string;
};
type Counts = { readonly created: number; readonly replaced: number };

/**
 * Stores the valid rows in slices.
 * @throws AppError that names the stored lines.
 */
async function store(deps: SuppressionDeps, given: Given, scope: ImportScope, rows: number): Promise<Counts> {
  const pause = createPauses(WORK_MS, REST_FOR);
  const tenantId = scope.caller.tenant.id;
  let counts: Counts = { created: 0, replaced: 0 };
  const progress: Progress = { stored: undefined, done: 0, rows };
  let slice: CheckedSuppression[] = [];
  let lines: LineRange | undefined;

  async function storeSlice(): Promise<void> {
    if (given.gone.aborted) throw abandoned();
    const entries = slice.map((entry) => suppressionEntry(deps.addressKeys, tenantId, 'import', entry));
    const startedAt = performance.now();
    try {
      counts = await storeEntries(deps, scope, { entries, counts, progress });
    } catch (error) {
      throw brokenOff(error, progress, lines);
    }
    progress.done += slice.length;
    progress.stored = { from: progress.stored?.from ?? lines?.from ?? 1, to: lines?.to ?? 1 };
    slice = [];
    lines = undefined;
    if (progress.done < rows) {
      await sleep(Math.min(performance.now() - startedAt, SLICE_REST_MS_MAX));
    }
  }

  for (const row of importRows(given.upload, { now: given.now, onUnknown: () => {} })) {
    if ('faults' in row || row.isOver) continue;
    slice.push(row.entry);
    lines = { from: lines?.from ?? row.line, to: row.line };
    if (slice.length === SLICE_ROWS) await storeSlice();
    const resting = pause();
    if (resting !== undefined) await resting;
  }
  if (slice.length > 0) await storeSlice();
  return counts;
}

type Progress = { readonly rows: number; done: number; stored: LineRange | undefined };
type Slice = {
  readonly entries: readonly NewSuppression[];
  /** Sums of the slices before. */
  readonly counts: Counts;
  readonly progress: Progress;
};

/**
 * Stores one slice in one transaction. The audit log records the end of the import, and its beginning if it takes several slices.
 */
function storeEntries(
  deps: SuppressionDeps,
  { caller, request, importId }: ImportScope,
  { entries, counts, progress: { done, rows } }: Slice,
): Promise<Counts> {
  return changeTenant(deps, scopeOf(caller, request), async ({ tx, tenant, audit }) => {
    // The tenant may have been suspended or deleted since the import began.
    assertActive(tenant);
    const { created, replaced } = await importSuppressions(caller.tenant.id, tx, entries);
    const sum = { created: counts.created + created, replaced: counts.replaced + replaced };
    const isLast = done + entries.length === rows;
    const tell = (action: string, facts: Readonly<Record<string, number>>): Promise<void> =>
      audit(action, importId, facts, {
        changes: Object.entries(facts).map(([field, to]) => ({ field, to })),
      });
    if (isLast) await tell('suppression.imported', { rows, ...sum });
    else if (done === 0) await tell('suppression.import_begun', { rows });
    return sum;
  });
}

/** Returns the error of an import that failed midway: it names the lines that are stored and those that may be. */
function brokenOff(error: unknown, { stored }: Progress, trying: LineRange | undefined): AppError {
  const fault = toAppError(error);
  const [done, open] = [stored, trying].map((range) => (range === undefined ? '' : lineRangesText([range])));
  const detail = (field: string, rule: string, message: string) => ({ field, rule, message });
  return new AppError(fault.code, {
    message: `${fault.message}. ${done === '' ? 'Of the import no line is known to be stored' : `Of the import the right ones of the lines ${done} are stored`}, and those of ${open} may be; send it again`,
    details: [
      ...(done === '' ? [] : [detail('lines', 'stored', `Stored: ${done}`)]),
      ...(open === '' ? [] : [detail('lines', 'unknown', `May be stored: ${open}`)]),
      detail('lines', 'rest', 'All others are not stored'),
    ],
    cause: error,
    ...(fault.retryAfter === undefined ? {} : { retryAfter: fault.retryAfter }),
  });
}
