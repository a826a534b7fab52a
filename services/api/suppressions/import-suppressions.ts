import { z } from 'zod';
import { validationFailed } from '#core/domain/fault/app-error.ts';
import { newId } from '#core/domain/storage/ids.ts';
import type { Warning } from '#core/domain/fault/warning.ts';
import { createPauses } from '../http/admission/pauses.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';
import type { Upload } from '../http/input/upload.ts';
import { checkImport, ROWS_MAX } from './check-import.ts';
import { NAMED_FAULTS_MAX } from './import-faults.ts';
import { CSV, importRows, NDJSON } from './import-rows.ts';
import { importSlices } from './import-slices.ts';
import { storeImport } from './store-import.ts';
import type { SuppressionDeps } from './suppression-routes.ts';

const BYTES_MAX = 15 * 1024 * 1024;
/** Turns and pauses on the event loop, which sends share. */
const [WORK_MS, REST_FOR] = [2, 1];

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
        const given = { upload: upload as Upload, now: Date.now(), gone: signal };
        const pause = createPauses(WORK_MS, REST_FOR);
        const { received, expired, faults } = await checkImport(given, warnings, pause);
        if (received === 0)
          throw validationFailed({ field: 'body', rule: 'min', message: 'Must have a row' });
        if (faults.rows() > 0 && mode === 'strict') throw faults.error();
        const importId = newId();
        if (expired > 0) warnings.add(expiredRows(expired));
        const { created, replaced } = await storeImport(
          deps,
          { caller, request, importId, rows: received - faults.rows() - expired, gone: signal },
          importSlices(importRows(given.upload, { now: given.now, onUnknown: () => {} }), pause),
        );
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

/** An entry of an export may have expired since. It blocks nobody, so the rest of the file is imported without it. */
function expiredRows(expired: number): Warning {
  const message = `Ignored ${expired === 1 ? 'a row whose expiry has' : `${expired} rows whose expiry has`} passed`;
  return { field: 'expiresAt', message };
}
