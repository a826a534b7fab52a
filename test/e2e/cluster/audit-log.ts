import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';

/** One request to the API server, as its audit log holds it. */
export type AuditEntry = {
  /** Name of the service account that asked. */
  readonly account: string;
  readonly verb: string;
  readonly group: string;
  /** With its subresource, as rules write it: `tenants/status`. For a path that is no resource, the path. */
  readonly resource: string;
  /** Empty for what belongs to no namespace, and for requests over all of them. */
  readonly namespace: string;
  /** Empty where no single object is meant. */
  readonly name: string;
  readonly code: number;
  /** Whether authorization refused it. */
  readonly isForbidden: boolean;
};

/** A place in the log: what comes after it is new. */
export async function auditPosition(path: string): Promise<number> {
  return (await stat(path)).size;
}

/** What the service accounts of a namespace have asked for since a position. */
export async function readAuditLog(path: string, from: number, namespace: string): Promise<AuditEntry[]> {
  // A log that was rotated since begins anew; what went with the old file was the earlier part.
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

/** One line; undefined for the stages that come before an answer. */
export function auditEntry(
  line: string,
): (Omit<AuditEntry, 'account'> & { readonly user: string }) | undefined {
  const event = JSON.parse(line) as AuditEvent;
  // A watch tells of its start when it starts and of its end when it ends.
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
