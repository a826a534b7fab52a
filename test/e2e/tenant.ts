import { writtenLimits } from '../../services/controller/resources/limit-fields.ts';
import { randomBytes } from 'node:crypto';
import type { Limits } from '#core/domain/tenant/plan.ts';
import { accountsOf } from '../../deploy/quickstart/accounts.ts';
import { createApiClient } from '../../deploy/quickstart/api-client.ts';
import { conditionOf, type Kubectl, type KubeObject } from './cluster/kubectl.ts';

const API_VERSION = 'despatch.dev/v1alpha1';
export const TENANTS = 'tenants.despatch.dev';
export const PLANS = 'plans.despatch.dev';

export const SIGN_IN_AUDIENCE = 'despatch';

export type TenantSpec = {
  readonly displayName?: string;
  readonly slug?: string;
  readonly planRef?: { readonly name: string };
  readonly limits?: Partial<Limits>;
  readonly state?: 'Active' | 'Suspended';
  readonly suspendReason?: string;
  readonly owners?: readonly { readonly email?: string; readonly subject?: string }[];
  readonly deletionPolicy?: 'Retain' | 'Purge';
};

/** Returns the manifest that a platform team would keep in its repository; the owner is identified by an e-mail address. */
export function tenantManifest(namespace: string, name: string, spec: TenantSpec = {}): object {
  return {
    apiVersion: API_VERSION,
    kind: 'Tenant',
    metadata: { name, namespace },
    spec: { owners: [{ email: ownerEmail(name) }], ...spec },
  };
}

export function planManifest(name: string, limits: Limits): object {
  return {
    apiVersion: API_VERSION,
    kind: 'Plan',
    metadata: { name },
    spec: { displayName: name, limits: writtenLimits(limits) },
  };
}

function ownerEmail(name: string): string {
  return `owner-of-${name}@example.org`;
}

const READY_SECONDS_MAX = 60;

/** Waits until a tenant's latest spec is in effect. */
export async function tenantReady(
  kubectl: Kubectl,
  namespace: string,
  name: string,
  timeoutSeconds = READY_SECONDS_MAX,
): Promise<KubeObject> {
  const { metadata } = await kubectl.get(TENANTS, name, namespace);
  const observed = `jsonpath={.status.observedGeneration}=${metadata.generation}`;
  const here = ['--namespace', namespace];
  await kubectl.wait(`${TENANTS}/${name}`, observed, timeoutSeconds, ...here);
  await kubectl.wait(`${TENANTS}/${name}`, 'condition=Ready', timeoutSeconds, ...here);
  return kubectl.get(TENANTS, name, namespace);
}

/** Returns a condition as `True`, `False (Reason)`, and so on, which makes a failed comparison explain itself. */
export function shownCondition(tenant: KubeObject, type: string): string {
  const condition = conditionOf(tenant, type);
  if (condition === undefined) return 'absent';
  return condition.status === 'True' ? 'True' : `${condition.status} (${condition.reason})`;
}

/** A tenant that can send. */
export type OnboardedTenant = {
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  readonly slug: string;
  readonly key: string;
  /** Sign-in token of its owner. */
  readonly token: string;
};

export type Onboarding = {
  readonly kubectl: Kubectl;
  /** Origin of the api. */
  readonly origin: string;
  readonly signIn: (claims: { readonly sub: string; readonly email: string }) => Promise<string>;
};

/** Takes the first steps of an owner: signs in, connects a provider for each channel, creates a key. */
export async function onboard(
  { kubectl, origin, signIn }: Onboarding,
  namespace: string,
  name: string,
  channels: readonly string[] = ['sms'],
): Promise<OnboardedTenant> {
  const { status } = await tenantReady(kubectl, namespace, name);
  const token = await signIn({ sub: `${name}-${randomBytes(4).toString('hex')}`, email: ownerEmail(name) });
  const slug = status.slug as string;
  const api = createApiClient(origin, () => {});
  const owner = { token, tenantSlug: slug };
  for (const account of accountsOf(slug, 0).filter(({ channel }) => channels.includes(channel))) {
    const { provider, label, publicConfig, secretConfig } = account;
    const body = { provider, label, publicConfig, secretConfig: await secretConfig() };
    await api.call(owner, 'POST', '/v1/admin/providers', body);
  }
  const { key } = await api.call<{ key: string }>(owner, 'POST', '/v1/admin/api-keys', {
    name: 'end to end',
  });
  return { id: status.tenantId as string, name, namespace, slug, key, token };
}
