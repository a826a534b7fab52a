import type { z } from 'zod';
import { AppError } from '#core/domain/fault/app-error.ts';
import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import {
  deleteAccount,
  requestVerification,
  setAccountStatus,
  wakeWaiting,
} from '#core/store/accounts/provider-accounts.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { Provider, viewAccountFor } from './account-view.ts';
import {
  type AccountCall,
  accountRouteTag,
  accountRouteWriter,
  changeAccount,
  requireAccount,
} from './change-account.ts';

export function verifyAccountRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/providers/:id/verify',
    operation: 'verifyProvider',
    summary: "Check a provider account's credentials",
    description:
      'The check runs soon and sends no message; `lastVerification`, `status` and `statusReason` show its result.',
    tag: accountRouteTag,
    auth: accountRouteWriter,
    params: IdParams,
    status: 202,
    response: Provider,
    errors: ['invalid_state'],
    handler: async ({ caller, params, request }) => {
      const account = await changeAccount(
        deps,
        { caller, id: params.id, request },
        async ({ tx, audit }, { id, status, label: name }) => {
          if (status === 'disabled')
            throw new AppError('invalid_state', { message: 'Provider account is disabled' });
          await requestVerification(caller.tenant.id, tx, id);
          await audit('provider.verify_requested', id, {}, { name });
          return requireAccount(caller, tx, id);
        },
      );
      return { body: viewAccountFor(deps.receiptUrls, caller, account) };
    },
  });
}

export function enableAccountRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/providers/:id/enable',
    operation: 'enableProvider',
    summary: 'Enable a disabled provider account',
    description: 'An account that is not disabled does not change.',
    tag: accountRouteTag,
    auth: accountRouteWriter,
    params: IdParams,
    response: Provider,
    handler: async ({ caller, params, request }) => ({
      body: await move(deps, { caller, id: params.id, request }, 'active'),
    }),
  });
}

export function disableAccountRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/providers/:id/disable',
    operation: 'disableProvider',
    summary: 'Disable a provider account',
    description: 'No message is sent through it until it is enabled again.',
    tag: accountRouteTag,
    auth: accountRouteWriter,
    params: IdParams,
    response: Provider,
    handler: async ({ caller, params, request }) => ({
      body: await move(deps, { caller, id: params.id, request }, 'disabled'),
    }),
  });
}

export function deleteAccountRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/providers/:id',
    operation: 'deleteProvider',
    summary: 'Delete a provider account',
    description:
      'Its secret is removed at once. Messages that waited for it move to another account, if there is one.',
    tag: accountRouteTag,
    auth: accountRouteWriter,
    params: IdParams,
    handler: async ({ caller, params, request }) => {
      await changeAccount(
        deps,
        { caller, id: params.id, request },
        async ({ tx, audit }, { id, label: name }) => {
          await deleteAccount(caller.tenant.id, tx, id);
          await wakeWaiting(caller.tenant.id, tx, id);
          await audit('provider.deleted', id, {}, { name });
        },
      );
      return { body: undefined };
    },
  });
}

/** Idempotent: a repeated call changes nothing. */
async function move(
  deps: AdminDeps,
  call: AccountCall,
  to: 'active' | 'disabled',
): Promise<z.output<typeof Provider>> {
  const { caller } = call;
  const account = await changeAccount(deps, call, async ({ tx, audit }, before) => {
    if ((before.status === 'disabled') === (to === 'disabled')) return before;
    await setAccountStatus(caller.tenant.id, tx, before.id, to);
    await wakeWaiting(caller.tenant.id, tx, before.id);
    const after = await requireAccount(caller, tx, before.id);
    const changes = auditChanges({ status: before.status }, { status: after.status });
    const details = { name: before.label, changes };
    await audit(to === 'disabled' ? 'provider.disabled' : 'provider.enabled', before.id, {}, details);
    return after;
  });
  return viewAccountFor(deps.receiptUrls, caller, account);
}
