import type { LoadIds } from '#core/domain/id-loader.ts';
import type { WebhookUrlRules } from '#core/domain/webhook-url.ts';
import type { AdminDeps } from '../admin/admin-deps.ts';
import type { ReadTenant } from '../http/reads.ts';
import type { PublicKeys } from './public-keys.ts';

/** Dependencies of the webhook routes. */
export type WebhookDeps = AdminDeps & {
  readonly urlRules: WebhookUrlRules;
  readonly loadIds: LoadIds;
  readonly read: ReadTenant;
  readonly publicKeys: Pick<PublicKeys, 'find'>;
};
