import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';

/** One request to the API server, as its audit log records it. */
export type AuditEntry = {
  /** Name of the service account that made the request. */
  readonly account: string;
  readonly verb: string;
  readonly group: string;
  /** Includes the subresource, as RBAC rules write it: `tenants/status`. For a path that is not a resource, the path. */
  readonly resource: string;
  /** Empty for cluster-scoped objects, and for requests over all namespaces. */
  readonly namespace: string;
  /** Empty where the request names no single object. */
  readonly name: string;
  readonly code: number;
  /** Whether authorization refused the request. */
  readonly isForbidden: boolean;
};

/** Returns the current end of the log; later entries are new. */
export async function auditPosition(path: string): Promise<number> {
  return (await stat(path)).size;
}

/** Reads the requests of a namespace's service accounts since a position. */
export async function readAuditLog(path: string, from: number, namespace: string): Promise<AuditEntry[]> {
  // A log that was rotated since then starts at 0; its old file contained only earlier entries.
  const start = (await stat(path)).size < from ? 0 : from;
  const prefix = `system:serviceaccount:${namespace}:`;
  const entries: AuditEntry[] = [];
  for await (const line of createInterface({ input: createReadStream(path, { start }) })) {
    if (!line.includes(prefix)) continue;
    const entry = auditEntry(line);
    if (entry?.user.startsWith(prefix) === true) {
      const { user, ...rest } = entry;
      entries.push({ ...rest, account: user.slice(prefix.length) });
    }
  }
  return entries;
}

type AuditEvent = {
  readonly stage: string;
  readonly verb: string;
  readonly requestURI: string;
  readonly user?: { readonly username?: string };
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly annotations?: Readonly<Record<string, string>>;
};

/** Parses one line; returns undefined for the stages before an answer. */
export function auditEntry(
  line: string,
): (Omit<AuditEntry, 'account'> & { readonly user: string }) | undefined {
  const event = JSON.parse(line) as AuditEvent;
  // A watch is logged when it starts and again when it ends.
  if (event.stage !== 'ResponseComplete' && event.stage !== 'ResponseStarted') return undefined;
  const { objectRef = {}, annotations = {}, responseStatus } = event;
  const { apiGroup = '', resource, subresource, namespace = '', name = '' } = objectRef;
  const path = event.requestURI.split('?', 1)[0] ?? '';
  return {
    user: event.user?.username ?? '',
    verb: event.verb,
    group: apiGroup,
    resource:
      resource === undefined
        ? path
        : [resource, ...(subresource === undefined ? [] : [subresource])].join('/'),
    namespace,
    name,
    code: responseStatus?.code ?? 0,
    isForbidden: annotations['authorization.k8s.io/decision'] === 'forbid',
  };
}
