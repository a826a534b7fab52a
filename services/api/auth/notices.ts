import type { ChangeOfEndpoint } from '#core/domain/endpoint-notice.ts';

/**
 * What has changed about a tenant, so that nobody goes on with an old copy. `endpoint` and `clock`, that of test messages, are
 * for workers alone: no api keeps copies of them.
 */
export const NOTICE_KINDS = ['tenant', 'key', 'account', 'route', 'endpoint', 'clock'] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];
export type Notice = { readonly tenantId: string; readonly id?: string };
export type EndpointNotice = Required<Notice> & { readonly changed: ChangeOfEndpoint };

/**
 * Tells of a change after its commit: drops this process's own copies at once, then tells the others. Never fails:
 * a lost notice costs the few seconds that caches may hold a copy.
 */
export type PublishNotice = (
  ...of: [kind: Exclude<NoticeKind, 'endpoint'>, notice: Notice] | [kind: 'endpoint', notice: EndpointNotice]
) => void;
