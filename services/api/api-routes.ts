import type { AdminDeps } from './admin/admin-change.ts';
import { adminRoutes } from './admin/admin-routes.ts';
import { readMessageRoutes, type ReadMessagesDeps } from './messages/read-messages.ts';
import { sendMessageRoute, type SendMessageDeps } from './messages/send-message.ts';
import { receiptRoutes, type ReceiptRoutesDeps } from './receipts/receipt-routes.ts';
import type { RouteModule } from './http/routes-kit.ts';

/** What the routes work with, by group. */
export type ApiRoutesDeps = {
  readonly send: SendMessageDeps;
  readonly read: ReadMessagesDeps;
  readonly receipts: ReceiptRoutesDeps;
  readonly admin: AdminDeps;
};

/** Every route of the api. They only hold what they are given: the OpenAPI document is made of them without a server. */
export function apiRoutes({ send, read, receipts, admin }: ApiRoutesDeps): RouteModule[] {
  return [sendMessageRoute(send), readMessageRoutes(read), receiptRoutes(receipts), ...adminRoutes(admin)];
}
