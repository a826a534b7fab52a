import { z } from 'zod';
import {
  scanSuppressions,
  type ListedSuppression,
  type SuppressionFilter,
} from '#core/store/suppressions/suppressions.ts';
import type { Scanned } from '#core/store/query/scan.ts';
import { assertStillMember } from '../auth/assert-member.ts';
import type { MemberCaller } from '../auth/auth.ts';
import { toCsv } from '../http/lists/csv.ts';
import { createDownloadTime } from '../http/lists/download-time.ts';
import { prefersCsv } from '../http/lists/prefers-csv.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { OpenFile, RouteModule } from '../http/routes/route.ts';
import { CSV, NDJSON } from './import-rows.ts';
import { addressNames, suppressionFilter } from './suppression-filter.ts';
import type { SuppressionDeps } from './suppression-routes.ts';
import { viewSuppression } from './suppression-schema.ts';

type Part = Scanned<ListedSuppression, number>;

const ROLE = 'developer';

/** Rows of one read. Until the client fetches them, memory holds them twice: as rows and as text. */
const PART_ROWS = 250;

const COLUMNS = [
  'id',
  'channel',
  'address',
  'hashed',
  'reason',
  'scope',
  'source',
  'messageId',
  'expiresAt',
  'createdAt',
] as const;

const EXAMPLES = {
  [NDJSON]:
    '{"id":"7c1e5a90-2b3d-4f6a-9e8c-0d1f2a3b4c5d","channel":"email","address":"ann@example.com","hashed":false,"reason":"unsubscribe","scope":"marketing","source":"api","messageId":null,"expiresAt":null,"createdAt":"2026-01-15T09:30:00.000Z"}\n',
  [CSV]: `${COLUMNS.join(',')}\r\n7c1e5a90-2b3d-4f6a-9e8c-0d1f2a3b4c5d,email,ann@example.com,false,unsubscribe,marketing,api,,,2026-01-15T09:30:00.000Z\r\n`,
};

const DESCRIPTION = `All entries in force, newest first, as one JSON object per line, or as text/csv with the names in its first line: by \`format\`, else by the header \`Accept\`. An import accepts either. Entries of which only the hash is kept have no address; nothing else identifies them, so they cannot be imported.

The answer is as long as the list, and is sent while the list is read. An entry that is added, replaced or removed in the meantime may be missing or not; every other entry occurs once. An answer that breaks off before its end is incomplete; it breaks off if the client reads none of it for a minute, after 15 minutes, and once its reader is no longer a member with this role. A process of the api runs one export of a tenant at a time: another one waits up to 20 seconds, and is then 503 with \`Retry-After\`.`;

export function exportSuppressionsRoute(deps: SuppressionDeps): RouteModule {
  const { addressKeys } = deps;
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/suppressions/export',
    operation: 'exportSuppressions',
    summary: 'Download the suppression list',
    description: DESCRIPTION,
    tag: 'Suppressions',
    auth: { kind: 'bearer', role: ROLE },
    query: z.object({
      ...suppressionFilter,
      format: z.enum(['ndjson', 'csv']).optional().describe('Overrides the header `Accept`.'),
    }),
    download: EXAMPLES,
    handler: async ({ caller, query: { address, format, ...filter }, request, gone }) => {
      const { tenant } = caller;
      const isCsv = format === undefined ? prefersCsv(request.accept, NDJSON) : format === 'csv';
      const addresses = address === undefined ? undefined : addressNames(addressKeys, tenant.id, address);
      const [type, name] = isCsv
        ? [`${CSV}; charset=utf-8`, 'suppressions.csv']
        : [NDJSON, 'suppressions.ndjson'];
      const open = () => openExport(deps, { caller, filter: { ...filter, addresses }, isCsv, gone: gone() });
      return { body: undefined, download: { type, name, open } };
    },
  });
}

type Export = {
  readonly caller: MemberCaller;
  readonly filter: SuppressionFilter;
  readonly isCsv: boolean;
  readonly gone: AbortSignal;
};

/** Reads the first part, and the others as the client takes them. Holds the tenant's slot until the end. */
async function openExport(deps: SuppressionDeps, { caller, filter, isCsv, gone }: Export): Promise<OpenFile> {
  const { tenant } = caller;
  const time = createDownloadTime(gone, deps.downloadLimits);
  const over = time.signal;
  const range = { rows: PART_ROWS, most: PART_ROWS };
  async function readPart(before: number | undefined): Promise<Part> {
    const leaveRead = await deps.exportReads.take(tenant.id, over);
    try {
      return await deps.read(tenant.id, over, async (tx) => {
        await assertStillMember(tx, caller, ROLE);
        return scanSuppressions(tenant.id, tx, filter, { ...range, before });
      });
    } finally {
      leaveRead();
    }
  }
  let leave = (): void => {};
  const end = (): void => {
    leave();
    time[Symbol.dispose]();
  };
  // If the client never starts to read the answer, only this event releases the slot.
  over.addEventListener('abort', end);
  let first: Part;
  try {
    leave = await deps.exports.take(tenant.id, over);
    first = await readPart(undefined);
  } catch (error) {
    end();
    throw error;
  }

  async function* parts(): AsyncGenerator<string, void> {
    try {
      if (isCsv) yield toCsv([COLUMNS]);
      for (let part = first; ; part = await readPart(part.end)) {
        if (part.found.length > 0) yield isCsv ? csvOf(part.found) : ndjsonOf(part.found);
        time.partTaken();
        if (part.scanned < PART_ROWS) return;
      }
    } finally {
      end();
    }
  }
  return { parts: parts(), signal: over };
}

function ndjsonOf(entries: readonly ListedSuppression[]): string {
  return entries.map((entry) => `${JSON.stringify(viewSuppression(entry))}\n`).join('');
}

function csvOf(entries: readonly ListedSuppression[]): string {
  return toCsv(
    entries.map((entry) => {
      const view = viewSuppression(entry);
      return COLUMNS.map((name) => view[name]);
    }),
  );
}
