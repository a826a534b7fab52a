import { AppError, orNotFound } from '#core/domain/fault/app-error.ts';
import { receiptToken, receiptUrl } from '#core/domain/receipts/receipt-token.ts';
import {
  markUnverified,
  replaceAccountSecret,
  rotateReceiptUrl,
  wakeWaiting,
} from '#core/store/accounts/provider-accounts.ts';
import { configWarnings } from '#providers/config-keys.ts';
import { parseAccount } from '#providers/registry.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';
import { createInTenant } from '../../changes/change-tenant.ts';
import { iso } from '../../http/iso.ts';
import { scopeOf } from '../../changes/change-scope.ts';
import type { AdminDeps } from '../admin-deps.ts';
import {
  ProviderSecret,
  ReplaceProviderSecret,
  RotatedReceiptUrl,
  RotateReceiptUrl,
} from './account-schemas.ts';
import { assertUnchanged, encryptSecrets, settingsRejected } from './account-secret.ts';
import { receiptUrlOf } from './account-view.ts';
import {
  accountRouteErrors,
  accountRouteTag,
  accountRouteWriter,
  catalogEntry,
  changeAccount,
  readAccount,
  requireAccount,
  secretChanged,
} from './change-account.ts';

export function replaceSecretRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'PUT',
    path: '/v1/admin/providers/:id/secret',
    operation: 'replaceProviderSecret',
    summary: "Replace a provider account's secret",
    description:
      'Takes effect for the next message. The account becomes `unverified` again, and a check starts automatically. The previous secret is kept, encrypted, for 15 minutes.',
    tag: accountRouteTag,
    auth: accountRouteWriter,
    params: IdParams,
    body: ReplaceProviderSecret,
    response: ProviderSecret,
    errors: accountRouteErrors,
    handler: async ({ caller, params, body, warnings, request }) => {
      const before = await readAccount(deps.sql, caller, params.id);
      const provider = catalogEntry(before.provider);
      const parsed = parseAccount(provider, before.configPublic, body.secretConfig);
      if (!parsed.ok) throw settingsRejected(parsed.details);
      configWarnings(provider, {}, body.secretConfig).forEach(warnings.add);
      const ciphertext = await encryptSecrets(deps.keyring, caller.tenant.id, before.id, parsed.secrets);
      const replaced = await changeAccount(
        deps,
        { caller, id: params.id, request },
        async ({ tx, audit }, account) => {
          const { id } = account;
          assertUnchanged(before, account);
          const rotated = orNotFound(await replaceAccountSecret(caller.tenant.id, tx, id, ciphertext));
          await markUnverified(caller.tenant.id, tx, id);
          await wakeWaiting(caller.tenant.id, tx, id);
          await audit('provider.secret_rotated', id, {}, secretChanged(account));
          return rotated;
        },
      );
      const { secretVersion, rotatedAt } = replaced;
      return { body: { id: before.id, secretVersion, rotatedAt: rotatedAt.toISOString() } };
    },
  });
}

export function rotateReceiptUrlRoute(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/providers/:id/rotate-receipt-url',
    operation: 'rotateReceiptUrl',
    summary: "Replace a provider account's receipt URL",
    description:
      'The previous URL stays valid for `graceSeconds`, 7 days by default, so that it can be replaced at the provider and reports under way still arrive; with 0 it is refused at once. Older URLs are refused from now on.',
    tag: accountRouteTag,
    auth: accountRouteWriter,
    params: IdParams,
    idempotent: true,
    body: RotateReceiptUrl,
    response: RotatedReceiptUrl,
    errors: ['invalid_state', 'idempotency_mismatch'],
    handler: async ({ caller, params, body: { graceSeconds }, idempotency, request }) => {
      const tenantId = caller.tenant.id;
      const result = await createInTenant<RotatedReceiptUrl>(
        deps,
        scopeOf(caller, request),
        idempotency,
        async ({ tx, audit }) => {
          const account = await requireAccount(caller, tx, params.id);
          const { id, label: name } = account;
          if (receiptUrlOf(deps.receiptUrls, account) === null) {
            throw new AppError('invalid_state', { message: 'The provider reports nothing to a URL' });
          }
          const rotated = orNotFound(await rotateReceiptUrl(tenantId, tx, id, graceSeconds));
          const { receiptVersion } = rotated;
          const previousUntil = iso(rotated.previousUntil);
          const facts = { version: receiptVersion, graceUntil: previousUntil };
          const details = { name, changes: [{ field: 'receiptUrl' }] };
          await audit('provider.receipt_url_rotated', id, facts, details);
          const receiptUrl = receiptUrlOf(deps.receiptUrls, { ...account, receiptVersion }) as string;
          const stored = { id, previousUntil };
          return { status: 200, body: { ...stored, receiptUrl }, stored, nonce: nonceOf(receiptVersion) };
        },
        (stored, nonce) => ({ ...stored, receiptUrl: urlOf(stored.id, nonce) }),
      );
      if (!result.replayed) deps.notify('account', { tenantId, id: params.id });
      return result;
    },
  });

  /** The URL authenticates the provider, so the answer stored for a replay contains only the URL's version. */
  function nonceOf(version: number): Uint8Array {
    return Buffer.from(String(version));
  }

  function urlOf(id: string, nonce: Uint8Array): string {
    const { key, publicBaseUrl } = deps.receiptUrls;
    return receiptUrl(publicBaseUrl, id, receiptToken(key, id, Number(Buffer.from(nonce).toString())));
  }
}
