import type { z } from 'zod';
import { newId, type ProviderAccountId } from '#core/domain/storage/ids.ts';
import { countAccounts, insertAccount } from '#core/store/accounts/provider-accounts.ts';
import { configWarnings } from '#providers/config-keys.ts';
import { parseAccount } from '#providers/registry.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import type { RouteModule } from '../../http/routes/route.ts';
import { assertBelow } from '../../changes/assert-below.ts';
import { createInTenant } from '../../changes/change-tenant.ts';
import { earlierAnswer } from '../../http/routes/earlier-answer.ts';
import { scopeOf } from '../../changes/change-scope.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { CreateProvider } from './account-schemas.ts';
import { assertHostAllowed, assertNoSecret, encryptSecrets, settingsRejected } from './account-secret.ts';
import { Provider, receiptUrlOf, viewAccount } from './account-view.ts';
import { accountRouteTag, accountRouteWriter, catalogEntry } from './change-account.ts';

export function createAccountRoute(deps: AdminDeps): RouteModule {
  const { keyring, notify, isBlockedHost } = deps;
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/providers',
    operation: 'createProvider',
    summary: 'Store the credentials of a provider account',
    description:
      'The catalog lists the settings and secrets that a provider requires. Secrets are encrypted at once with a key of the tenant, and never returned. The account is `unverified`, and a check of it starts automatically.',
    tag: accountRouteTag,
    auth: accountRouteWriter,
    idempotent: true,
    body: CreateProvider,
    status: 201,
    response: Provider,
    errors: ['plan_limit_reached', 'idempotency_mismatch', 'url_blocked', 'dependency_unavailable'],
    handler: async ({ caller, body, idempotency, warnings, request }) => {
      const { label, publicConfig: configPublic, rateLimitPerSecond } = body;
      const tenantId = caller.tenant.id;
      // Adds the first version of the receipt URL; the answer stored for a replay does not contain it.
      const withUrl = <A extends { readonly body: z.output<typeof Provider> }>(answer: A): A => {
        const { id, provider: name } = answer.body;
        const first = { id: id as ProviderAccountId, provider: name, receiptVersion: 1 };
        return { ...answer, body: { ...answer.body, receiptUrl: receiptUrlOf(deps.receiptUrls, first) } };
      };
      // Looks for a replay first: the operator may have changed the allowed addresses since, or a release the settings.
      const earlier = await earlierAnswer<z.output<typeof Provider>>(deps, tenantId, idempotency);
      if (earlier !== null) return withUrl(earlier);
      const provider = catalogEntry(body.provider);
      assertNoSecret(provider, configPublic);
      const parsed = parseAccount(provider, configPublic, body.secretConfig);
      if (!parsed.ok) throw settingsRejected(parsed.details);
      assertHostAllowed(provider, parsed.config, isBlockedHost);
      configWarnings(provider, configPublic, body.secretConfig).forEach(warnings.add);
      const id = newId<ProviderAccountId>();
      const ciphertext = await encryptSecrets(keyring, tenantId, id, parsed.secrets);
      const { channel } = provider;
      const account = {
        id,
        provider: provider.id,
        channel,
        label,
        configPublic,
        rateLimitPerSecond,
        ciphertext,
      };
      const result = await createInTenant(
        deps,
        scopeOf(caller, request),
        idempotency,
        async ({ tx, tenant, audit }) => {
          const count = await countAccounts(tenantId, tx, channel);
          assertBelow(count, tenant.limits.providersPerChannelMax, 'providersPerChannelMax');
          const stored = await insertAccount(tenantId, tx, account);
          await audit('provider.created', id, {}, { name: label });
          return { status: 201, body: viewAccount(stored) };
        },
      );
      if (!result.replayed) notify('account', { tenantId, id });
      return withUrl(result);
    },
  });
}
