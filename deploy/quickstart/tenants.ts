import { isDeepStrictEqual } from 'node:util';
import type { ProviderAccount } from './accounts.ts';
import { describe, type ApiClient, type Caller } from './api-client.ts';
import type { SavedTenant } from './state.ts';
import { ensureEndpoint } from './webhook-endpoint.ts';

export type WantedTenant = {
  readonly slug: string;
  readonly name: string;
  /** The owner's bearer token. */
  readonly ownerToken: string;
  readonly accounts: readonly ProviderAccount[];
  /** The order of the accounts in the sms route. */
  readonly smsRoute?: readonly Pick<ProviderAccount, 'provider' | 'label'>[];
  /** URL that the tenant's events are sent to; absent: none. */
  readonly endpointUrl?: string;
  /** Token subject of a member with read access only. */
  readonly viewer?: string;
};

type ProviderView = {
  readonly id: string;
  readonly provider: string;
  readonly label: string;
  readonly status: string;
  readonly configPublic: Readonly<Record<string, unknown>>;
};

/**
 * Creates the tenant or repairs later changes to it: an active tenant, a working key of each mode, and its accounts and
 * endpoint, enabled and pointing to this start's servers.
 */
export async function ensureTenant(
  api: ApiClient,
  wanted: WantedTenant,
  saved: SavedTenant | undefined,
  platformToken: string,
): Promise<SavedTenant> {
  const { slug, name, ownerToken, viewer } = wanted;
  const owner: Caller = { token: ownerToken, tenantSlug: slug };
  const id =
    saved?.id ??
    (await api.call<{ id: string }>({ token: ownerToken }, 'POST', '/v1/admin/tenants', { name, slug })).id;
  if (saved !== undefined) await resume(api, saved, platformToken);
  if (wanted.endpointUrl !== undefined) await ensureEndpoint(api, owner, wanted.endpointUrl);
  await ensureAccounts(api, owner, wanted.accounts);
  if (wanted.smsRoute !== undefined) await ensureSmsRoute(api, owner, wanted.smsRoute);
  if (viewer !== undefined) {
    await api.call(owner, 'PUT', '/v1/admin/members', { subject: viewer, role: 'viewer' });
  }
  return {
    id,
    slug,
    serviceKey: await ensureKey(api, owner, 'live', saved?.serviceKey),
    testKey: await ensureKey(api, owner, 'test', saved?.testKey),
  };
}

/** @throws if the tenant was deleted: its name is taken until its rows are purged, so it cannot be created again. */
async function resume(api: ApiClient, { id, slug }: SavedTenant, platformToken: string): Promise<void> {
  const platform: Caller = { token: platformToken };
  const answer = await api.ask(platform, 'GET', `/v1/admin/tenants/${id}`);
  const { status } = answer.body as { status?: string };
  if (answer.status === 404 || status === 'deleting')
    throw new Error(`the tenant ${slug} of an earlier start was deleted; start with --fresh`);
  if (answer.status !== 200) throw new Error(`the tenant ${slug} was answered ${describe(answer)}`);
  if (status === 'suspended') await api.call(platform, 'POST', `/v1/admin/tenants/${id}/resume`);
}

/** Returns the id of the tenant's account with the provider; undefined if there is none. */
export async function accountIdOf(
  api: ApiClient,
  owner: Caller,
  { provider, label }: Pick<ProviderAccount, 'provider' | 'label'>,
): Promise<string | undefined> {
  const { items } = await api.call<{ items: ProviderView[] }>(owner, 'GET', '/v1/admin/providers?limit=200');
  return items.find((item) => item.provider === provider && item.label === label)?.id;
}

async function ensureAccounts(
  api: ApiClient,
  owner: Caller,
  accounts: readonly ProviderAccount[],
): Promise<void> {
  const { items } = await api.call<{ items: ProviderView[] }>(owner, 'GET', '/v1/admin/providers?limit=200');
  for (const { provider, label, publicConfig, secretConfig } of accounts) {
    const known = items.find((item) => item.provider === provider && item.label === label);
    if (known === undefined) {
      const body = { provider, label, publicConfig, secretConfig: await secretConfig() };
      await api.call(owner, 'POST', '/v1/admin/providers', body);
      continue;
    }
    // The inbox may be on another port now, and a stored secret must not be sent to a port that it was not entered for.
    if (!isDeepStrictEqual(known.configPublic, publicConfig)) {
      const change = { publicConfig, secretConfig: await secretConfig() };
      await api.call(owner, 'PATCH', `/v1/admin/providers/${known.id}`, change);
    }
    if (known.status === 'disabled') {
      await api.call(owner, 'POST', `/v1/admin/providers/${known.id}/enable`);
    }
  }
}

/** A route that is already in force is not changed. */
async function ensureSmsRoute(
  api: ApiClient,
  owner: Caller,
  accounts: readonly Pick<ProviderAccount, 'provider' | 'label'>[],
): Promise<void> {
  const steps = [];
  for (const account of accounts) steps.push({ providerId: await accountIdOf(api, owner, account) });
  await api.call(owner, 'PUT', '/v1/admin/routes/sms', { strategy: 'priority', steps });
}

async function ensureKey(
  api: ApiClient,
  owner: Caller,
  mode: 'live' | 'test',
  saved: string | undefined,
): Promise<string> {
  if (saved !== undefined) {
    const answer = await api.ask({ serviceKey: saved }, 'GET', '/v1/messages?limit=1');
    if (answer.status === 200) return saved;
    if (answer.status !== 401) throw new Error(`the kept ${mode} key was answered ${describe(answer)}`);
  }
  const { key } = await api.call<{ key: string }>(owner, 'POST', '/v1/admin/api-keys', {
    name: mode === 'live' ? 'Quick start' : 'Quick start, test mode',
    mode,
  });
  return key;
}
