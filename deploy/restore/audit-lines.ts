import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { z } from 'zod';
import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';

const Fact = z.union([z.string(), z.number(), z.null(), z.array(z.string())]);
const Entry = z.object({
  v: z.literal(1),
  id: z.uuid(),
  seq: z.number().nullable(),
  at: z.iso.datetime(),
  tenantId: z.uuid(),
  actor: z.string(),
  action: z.string(),
  target: z.string(),
  requestId: z.string().nullable(),
  facts: z.record(z.string(), Fact),
});
const Line = z.object({ event: z.literal('audit'), audit: Entry });

/** Fields in which a log collector puts the line that a container wrote. */
const WRAPPERS = ['log', 'message', 'line'] as const;

type AuditLines = {
  /** Each entry once, in the order in which they happened. */
  readonly entries: readonly AuditEntry[];
  /** Number of audit lines that cannot be parsed: their changes are not replayed. */
  readonly unreadable: number;
};

/**
 * Returns the audit entries among the lines of a log. Skips other lines, and unwraps what a collector adds: a prefix, as of
 * `kubectl logs --prefix`, or an object that contains the line as text.
 */
export async function readAuditLines(inputs: readonly Readable[]): Promise<AuditLines> {
  const entries = new Map<string, AuditEntry>();
  let unreadable = 0;
  for (const input of inputs) {
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
      if (!line.includes('audit')) continue;
      const found = parseLine(line);
      if (found === 'unreadable') unreadable += 1;
      else if (found !== undefined) entries.set(found.id, found);
    }
  }
  return { entries: [...entries.values()].toSorted(inOrder), unreadable };
}

function parseLine(line: string): AuditEntry | 'unreadable' | undefined {
  const start = line.indexOf('{');
  const value = start === -1 ? undefined : parseJson(line.slice(start));
  // Truncated, like the last line of a copied file.
  if (value === undefined) return /"event":"audit"/.test(line) ? 'unreadable' : undefined;
  return readEntry(value);
}

function readEntry(value: unknown): AuditEntry | 'unreadable' | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = value as Readonly<Record<string, unknown>>;
  if (fields['event'] === 'audit') {
    const line = Line.safeParse(fields);
    return line.success ? line.data.audit : 'unreadable';
  }
  for (const name of WRAPPERS) {
    const inner = fields[name];
    if (typeof inner === 'string' && inner.startsWith('{')) return parseLine(inner.trimEnd());
  }
  return undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function inOrder(a: AuditEntry, b: AuditEntry): number {
  if (a.at !== b.at) return a.at < b.at ? -1 : 1;
  return (a.seq ?? Infinity) < (b.seq ?? Infinity) ? -1 : 1;
}
