import type { AdminDeps } from './admin/admin-deps.ts';
import { adminRoutes } from './admin/admin-routes.ts';
import { readEventRoutes, type ReadEventsDeps } from './events/read-events.ts';
import { cancelMessageRoute, type CancelMessageDeps } from './messages/cancel-message.ts';
import { advanceTestClockRoute, type AdvanceTestClockDeps } from './messages/advance-test-clock.ts';
import { rescheduleMessageRoute } from './messages/reschedule-message.ts';
import { cancelMessagesRoute, type CancelMessagesDeps } from './messages/cancel-messages.ts';
import { eraseContentRoute, type EraseContentDeps } from './messages/erase-content.ts';
import { readMessageRoutes, type ReadMessagesDeps } from './messages/read-messages.ts';
import { sendBatchRoute, type SendBatchDeps } from './messages/send-batch.ts';
import { sendMessageRoute, type SendMessageDeps } from './messages/send-message.ts';
import { retryMessageRoute, type RetryMessageDeps } from './messages/retry-message.ts';
import { receiptRoutes, type ReceiptRoutesDeps } from './receipts/receipt-routes.ts';
import type { RouteModule } from './http/routes/route.ts';
import { suppressionRoutes, type SuppressionDeps } from './suppressions/suppression-routes.ts';
import { unsubscribeRoutes, type UnsubscribeDeps } from './unsubscribe/unsubscribe-routes.ts';
import type { WebhookDeps } from './webhooks/webhook-deps.ts';
import { webhookRoutes } from './webhooks/webhook-routes.ts';

/** Dependencies of the routes, by group. */
export type ApiRoutesDeps = {
  readonly send: SendMessageDeps & SendBatchDeps;
  readonly cancel: CancelMessageDeps & CancelMessagesDeps & AdvanceTestClockDeps;
  readonly retry: RetryMessageDeps;
  readonly erase: EraseContentDeps;
  readonly read: ReadMessagesDeps;
  readonly events: ReadEventsDeps;
  readonly receipts: ReceiptRoutesDeps;
  readonly admin: AdminDeps;
  readonly suppressions: SuppressionDeps;
  readonly unsubscribe: UnsubscribeDeps;
  readonly webhooks: WebhookDeps;
};

/**
 * Returns every route of the api. The routes only hold their dependencies, so the OpenAPI document can be generated without
 * a server.
 */
export function apiRoutes({
  send,
  cancel,
  retry,
  erase,
  read,
  events,
  receipts,
  admin,
  suppressions,
  unsubscribe,
  webhooks,
}: ApiRoutesDeps): RouteModule[] {
  return [
    sendMessageRoute(send),
    sendBatchRoute(send),
    cancelMessageRoute(cancel),
    cancelMessagesRoute(cancel),
    rescheduleMessageRoute(cancel),
    advanceTestClockRoute(cancel),
    retryMessageRoute(retry),
    eraseContentRoute(erase),
    readMessageRoutes(read),
    readEventRoutes(events),
    receiptRoutes(receipts),
    ...adminRoutes(admin),
    ...suppressionRoutes(suppressions),
    unsubscribeRoutes(unsubscribe),
    ...webhookRoutes(webhooks),
  ];
}
