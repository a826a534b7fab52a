/** What has changed about a tenant, so that nobody goes on with an old copy. */
export const NOTICE_KINDS = ['tenant', 'key', 'account'] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];
export type Notice = { readonly tenantId: string; readonly id?: string };

/**
 * Tells of a change after its commit: drops this process's own copies at once, then tells the others. Never fails:
 * a lost notice costs the few seconds that caches may hold a copy.
 */
export type PublishNotice = (kind: NoticeKind, notice: Notice) => void;
