import { orNotFound } from '#core/domain/fault/app-error.ts';
import type { ProviderAccountId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { AuditDetails } from '#core/store/tenants/audit-log.ts';
import { findAccount, type ProviderAccount } from '#core/store/accounts/provider-accounts.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { AnyProvider } from '#providers/provider.ts';
import { findProvider } from '#providers/registry.ts';
import type { MemberCaller } from '../../auth/auth.ts';
import type { RequestFacts } from '../../http/routes/route.ts';
import { changeTenant, type Change } from '../../changes/change-tenant.ts';
import { scopeOf } from '../../changes/change-scope.ts';
import type { AdminDeps } from '../admin-deps.ts';

/** The OpenAPI tag and the auth that the routes of provider accounts share. */
export const accountRouteTag = 'Providers';
export const accountRouteWriter = { kind: 'bearer', role: 'admin' } as const;
export const accountRouteReader = { kind: 'bearer', role: 'viewer' } as const;
export const accountRouteErrors = ['invalid_state', 'dependency_unavailable'] as const;

/** Which account a call is about, and who makes the call. */
export type AccountCall = {
  readonly caller: MemberCaller;
  readonly id: string;
  readonly request: RequestFacts;
};

/** Runs one change of one account and publishes its audit entries after the commit. */
export async function changeAccount<T>(
  deps: AdminDeps,
  { caller, id, request }: AccountCall,
  work: (change: Change, account: ProviderAccount) => Promise<T>,
): Promise<T> {
  const result = await changeTenant(deps, scopeOf(caller, request), async (change) =>
    work(change, await requireAccount(caller, change.tx, id)),
  );
  deps.notify('account', { tenantId: caller.tenant.id, id });
  return result;
}

/** Reads an account before it is changed, without a lock. */
export function readAccount(
  sql: AdminDeps['sql'],
  caller: MemberCaller,
  id: string,
): Promise<ProviderAccount> {
  return withTenant(sql, caller.tenant.id, (tx) => requireAccount(caller, tx, id));
}

export async function requireAccount(
  caller: MemberCaller,
  tx: TransactionSql,
  id: string,
): Promise<ProviderAccount> {
  return orNotFound(await findAccount(caller.tenant.id, tx, id as ProviderAccountId));
}

export function catalogEntry(id: string): AnyProvider {
  const provider = findProvider(id);
  if (provider === undefined) throw new Error(`the catalog has lost ${id}`);
  return provider;
}

export function secretChanged({ label }: ProviderAccount): AuditDetails {
  return { name: label, changes: [{ field: 'secretConfig' }] };
}
