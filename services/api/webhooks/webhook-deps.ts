import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import type { WebhookUrlRules } from '#core/domain/webhooks/webhook-url.ts';
import type { AdminDeps } from '../admin/admin-deps.ts';
import type { ReadTenant } from '../http/lists/reads.ts';
import type { PublicKeys } from './public-keys.ts';

/** Dependencies of the webhook routes. */
export type WebhookDeps = AdminDeps & {
  readonly urlRules: WebhookUrlRules;
  readonly loadIds: LoadIds;
  readonly read: ReadTenant;
  readonly publicKeys: Pick<PublicKeys, 'find'>;
};
