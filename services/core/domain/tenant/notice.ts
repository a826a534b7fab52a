/**
 * Kinds of changes of a tenant, for which processes drop their cached copies. Only workers use `endpoint` and `clock` (the clock
 * of test messages): the api caches neither. Only the api uses `webhook_key`.
 */
const NOTICE_KINDS = ['tenant', 'key', 'account', 'route', 'endpoint', 'webhook_key', 'clock'] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

/**
 * What has changed about an endpoint. `due`: a delivery is due; `test`: a person waits for a test call; `settings`: which events
 * it gets, or whether it is called, has changed; `secrets`: its URL or its secrets have changed.
 */
const ENDPOINT_CHANGES = ['due', 'test', 'settings', 'secrets'] as const;
export type ChangeOfEndpoint = (typeof ENDPOINT_CHANGES)[number];

/** The content of a change notice; `id` names what has changed of the tenant. */
export type Notice = { readonly tenantId: string; readonly id?: string };
type EndpointNotice = Required<Notice> & { readonly changed: ChangeOfEndpoint };
type NoticeOfKind =
  | [kind: Exclude<NoticeKind, 'endpoint'>, notice: Notice]
  | [kind: 'endpoint', notice: EndpointNotice];

/**
 * Announces a change after its commit: drops this process's own copies at once, then notifies the other processes. Never fails: a
 * lost notice costs the few seconds for which caches may keep a copy.
 */
export type PublishNotice = (...of: NoticeOfKind) => void;

/** Returns the payload of a notice; processes of the release before read it too. */
export function encodeNotice(notice: Notice | EndpointNotice): string {
  return JSON.stringify(notice);
}

/**
 * Reads the payload of a notice. It only makes a process drop cached data, so a forged one costs a query.
 * @returns null if it is none. `changed` is for notices about endpoints: `secrets`, which covers every change, if the payload
 * names no known one.
 */
export function decodeNotice(payload: string): (Notice & { readonly changed: ChangeOfEndpoint }) | null {
  try {
    const { tenantId, id, changed } = JSON.parse(payload) as Partial<Record<string, unknown>>;
    if (typeof tenantId !== 'string') return null;
    return { tenantId, ...(typeof id === 'string' ? { id } : {}), changed: changeOfEndpoint(changed) };
  } catch {
    return null;
  }
}

/** Returns false for kinds of later releases. */
export function isNoticeKind(kind: string): kind is NoticeKind {
  return (NOTICE_KINDS as readonly string[]).includes(kind);
}

function changeOfEndpoint(said: unknown): ChangeOfEndpoint {
  return ENDPOINT_CHANGES.find((change) => change === said) ?? 'secrets';
}
