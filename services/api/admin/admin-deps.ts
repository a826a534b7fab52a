import type { AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import type { Subkeys } from '#core/domain/storage/subkeys.ts';
import type { IsBlockedHost } from '#core/domain/account/tenant-host.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import type { PublishNotice } from '#core/domain/tenant/notice.ts';
import type { Cursors } from '../http/lists/cursor.ts';
import type { ReadTenant } from '../http/lists/reads.ts';
import type { SharedPauses } from '../http/admission/shared-pauses.ts';
import type { SharedSlots } from '../http/admission/shared-slots.ts';
import type { ReceiptUrlParts } from './provider-accounts/account-view.ts';

/** Dependencies of the admin routes. */
export type AdminDeps = {
  /** The connections for changes. */
  readonly sql: Sql;
  /** A share of them: while changes of one tenant wait for each other, others find a connection. */
  readonly slots: SharedSlots;
  readonly pauses: SharedPauses;
  /** Runs the reads of list routes. */
  readonly read: ReadTenant;
  readonly keyring: KeyEncrypter;
  readonly cursors: Cursors;
  readonly subkeys: Subkeys;
  readonly receiptUrls: ReceiptUrlParts;
  readonly notify: PublishNotice;
  readonly audit: AuditTrail;
  readonly isBlockedHost: IsBlockedHost;
  /** Whether any signed-in user may create a tenant; otherwise only platform admins may. */
  readonly selfServeTenants: boolean;
  /** Maximum number of tenants owned or created by a user who is not a platform admin. */
  readonly tenantsPerUserMax: number;
};
