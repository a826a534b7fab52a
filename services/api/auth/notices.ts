import type { ChangeOfEndpoint } from '#core/domain/endpoint-notice.ts';

/**
 * Kinds of changes of a tenant, for which processes drop their cached copies. Only workers use `endpoint` and `clock` (the clock
 * of test messages): the api caches neither.
 */
export const NOTICE_KINDS = ['tenant', 'key', 'account', 'route', 'endpoint', 'clock'] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];
export type Notice = { readonly tenantId: string; readonly id?: string };
export type EndpointNotice = Required<Notice> & { readonly changed: ChangeOfEndpoint };

/**
 * Announces a change after its commit: drops this process's own copies at once, then notifies the other processes. Never fails: a
 * lost notice costs the few seconds for which caches may keep a copy.
 */
export type PublishNotice = (
  ...of: [kind: Exclude<NoticeKind, 'endpoint'>, notice: Notice] | [kind: 'endpoint', notice: EndpointNotice]
) => void;
