import assert from 'node:assert/strict';
import { createApiClient } from '../../../deploy/quickstart/api-client.ts';
import { auditPosition, readAuditLog, type AuditEntry } from '../cluster/audit-log.ts';
import { forbiddenRequests, grantsTo, unusedGrants } from '../cluster/grants.ts';
import type { Kubectl } from '../cluster/kubectl.ts';
import { TAGS } from '../cluster/image.ts';
import { until } from '../poll.ts';
import { LEASE, type Release } from '../release.ts';
import type { Item } from '../run-items.ts';
import { shownAnswer } from '../send.ts';
import { ROOMY_LIMITS, type Stage } from '../stage.ts';
import { PLANS, planManifest, tenantReady, TENANTS, type OnboardedTenant } from '../tenant.ts';

const PLAN = 'e2e-rights';

export const rights: Item<Stage> = {
  number: 6,
  title: 'Rights, and what an uninstallation leaves',
  async run(stage, step) {
    const { kubectl } = stage;
    const release = await stage.release();
    const kept = await stage.newTenant(release, 'kept', { planRef: { name: 'starter' } });
    await useEveryRight(stage, release);
    await step('nothing was refused to any pod', async () => {
      assert.deepEqual(forbiddenRequests(await entriesOf(stage, release)), []);
    });
    await step('nothing was granted that was not used', async () => {
      const grants = await grantsTo(kubectl, release.namespace);
      assert.ok(grants.length > 0, 'no grants were found');
      assert.deepEqual(unusedGrants(grants, await entriesOf(stage, release)), []);
    });
    await step('api and worker have no credential of the cluster and asked it for nothing', async () => {
      for (const component of ['api', 'worker'] as const) {
        for (const { metadata, spec } of await release.pods(component)) {
          const { automountServiceAccountToken: mounts, volumes } = spec as PodSpec;
          assert.equal(mounts, false, metadata.name);
          // Vault's token has the audience `vault`, so the API server refuses it.
          assert.deepEqual(volumes.flatMap(audiencesOf), ['vault'], metadata.name);
        }
      }
      const accounts = new Set((await entriesOf(stage, release)).map(({ account }) => account));
      const controllers = await release.pods('controller');
      const own = new Set(controllers.map(({ spec }) => (spec as PodSpec).serviceAccountName));
      assert.deepEqual([...accounts], [...own]);
    });

    await step('an upgrade takes the Lease that was made anew into the release again', async () => {
      await release.deploy(TAGS.second);
      const { metadata } = await kubectl.get('leases.coordination.k8s.io', LEASE, release.namespace);
      assert.equal(metadata.annotations?.['meta.helm.sh/release-name'], 'despatch');
    });
    await step('an uninstallation leaves the definitions, Tenants and Plans, and nothing else', async () => {
      const before = await objectsOf(kubectl, release);
      assert.ok(
        before.some((name) => name.startsWith('deployment')),
        before.join(),
      );
      await release.uninstall();
      await untilNothingOf(kubectl, release);
      await kubectl.get('customresourcedefinition', TENANTS);
      await kubectl.get('customresourcedefinition', PLANS);
      const { status } = await kubectl.get(TENANTS, kept.name, release.tenantNamespace);
      assert.equal(status.tenantId, kept.id);
    });
    await step('an installation over all namespaces picks the Tenants up again', async () => {
      // The old controller loses its rights shortly before it ends.
      const from = await auditPosition(auditLogOf(stage));
      await release.deploy(TAGS.second, { watched: [] });
      await kubectl.patch(
        TENANTS,
        kept.name,
        { spec: { planRef: { name: 'growth' } } },
        release.tenantNamespace,
      );
      const { status } = await tenantReady(kubectl, release.tenantNamespace, kept.name);
      assert.equal(status.tenantId, kept.id);
      await sendsAsBefore(stage, release, kept);
      assert.deepEqual(forbiddenRequests(await entriesOf(stage, release, from)), []);
    });
    await step(
      "with the migration as the release's own Job, helm test has its message delivered",
      async () => {
        await kubectl.apply(await canarySecret(release, kept));
        const canary = ['tests.canary.enabled=true', `tests.canary.existingSecret=${CANARY}`];
        await release.deploy(TAGS.second, { watched: [], set: ['migrations.mode=job', ...canary] });
        const jobs = await kubectl.list('jobs', '--namespace', release.namespace);
        assert.ok(
          jobs.some(({ status }) => status.succeeded === 1),
          'no Job has migrated',
        );
        await release.test();
      },
    );
    await step('a release told to lets go of its Tenants, and deletes nothing of theirs', async () => {
      await release.deploy(TAGS.second, { watched: [], set: ['uninstall.releaseFinalizers=true'] });
      await release.uninstall();
      const where = ['--namespace', release.tenantNamespace];
      await kubectl.delete(TENANTS, kept.name, ...where, '--timeout=30s');
      const rows = await release.own.ask(
        (sql) => sql<{ status: string }[]>`select status from despatch.tenants where id = ${kept.id}`,
      );
      assert.deepEqual(
        rows.map(({ status }) => status),
        ['active'],
      );
    });
  },
};

const CANARY = 'despatch-canary';

/** Returns a secret with a key that cannot send to real recipients, as an operator would create it for `helm test`. */
async function canarySecret({ origin, namespace }: Release, tenant: OnboardedTenant): Promise<object> {
  const owner = { token: tenant.token, tenantSlug: tenant.slug };
  const api = createApiClient(origin(), () => {});
  const body = { name: 'canary', mode: 'test' };
  const { key } = await api.call<{ key: string }>(owner, 'POST', '/v1/admin/api-keys', body);
  const metadata = { name: CANARY, namespace };
  return { apiVersion: 'v1', kind: 'Secret', metadata, stringData: { 'service-key': key } };
}

type PodSpec = {
  readonly automountServiceAccountToken?: boolean;
  readonly serviceAccountName: string;
  readonly volumes: readonly Volume[];
};
type Volume = {
  readonly projected?: {
    readonly sources: readonly { readonly serviceAccountToken?: { audience?: string } }[];
  };
};

function audiencesOf({ projected }: Volume): string[] {
  return (projected?.sources ?? []).flatMap(({ serviceAccountToken: token }) =>
    token === undefined ? [] : [token.audience ?? 'the API server'],
  );
}

/**
 * Earlier items may not have run, so this uses each right: a Lease, a Plan and a Tenant are created and deleted, the Plan while
 * in use.
 */
async function useEveryRight(stage: Stage, release: Release): Promise<void> {
  const { kubectl } = stage;
  await kubectl.delete('leases.coordination.k8s.io', LEASE, '--namespace', release.namespace);
  await until('a leader', release.leader);
  await kubectl.apply(planManifest(PLAN, ROOMY_LIMITS));
  const spec = { planRef: { name: PLAN }, deletionPolicy: 'Purge' } as const;
  const { name } = await stage.newTenant(release, 'passing', spec);
  await kubectl.wait(`${PLANS}/${PLAN}`, 'condition=InUse', 60);
  await kubectl.delete(PLANS, PLAN, '--wait=false');
  const events = [
    'get',
    'events.events.k8s.io',
    '--namespace',
    'default',
    '-o',
    'jsonpath={.items[*].regarding.name}',
  ];
  await until('an event about the Plan', async () =>
    (await kubectl.run(events)).includes(PLAN) ? true : undefined,
  );
  await kubectl.delete(TENANTS, name, '--namespace', release.tenantNamespace, '--timeout=90s');
  await kubectl.wait(`${PLANS}/${PLAN}`, 'delete', 60);
}

/** Returns the requests of the release's pods. @param from position in the log. Default: the beginning of this run. */
async function entriesOf(
  stage: Stage,
  { namespace }: Release,
  from = stage.auditFrom,
): Promise<AuditEntry[]> {
  return readAuditLog(auditLogOf(stage), from ?? 0, namespace);
}

function auditLogOf({ environment: { auditLog } }: Stage): string {
  if (auditLog !== undefined) return auditLog;
  throw new Error('E2E_AUDIT_LOG is not set: nobody knows which rights were used');
}

/** Lists the objects of a release, in its namespaces and cluster-scoped, without the secrets that existed before it. */
async function objectsOf(kubectl: Kubectl, { namespace, tenantNamespace }: Release): Promise<string[]> {
  const made = ['--selector', 'app.kubernetes.io/managed-by=Helm,app.kubernetes.io/instance=despatch'];
  const kindsIn = async (scope: string): Promise<string> =>
    (await kubectl.run(['api-resources', '--verbs=list', `--namespaced=${scope}`, '-o', 'name']))
      .split('\n')
      .filter((kind) => !kind.startsWith('events'))
      .join();
  const names = async (kinds: string, ...args: string[]): Promise<string[]> =>
    (await kubectl.run(['get', kinds, '-o', 'name', '--ignore-not-found', ...args]))
      .split('\n')
      .filter(Boolean);
  const namespaced = await kindsIn('true');
  const inRelease = await names(namespaced, '--namespace', namespace);
  const inTenants = await names(namespaced, '--namespace', tenantNamespace, ...made);
  const inNone = await names(await kindsIn('false'), ...made);
  const given = /^(secret\/(despatch|backends)-|configmap\/kube-root-ca|serviceaccount\/default)/;
  const kept = /^customresourcedefinition|\.despatch\.dev\//;
  return [...inRelease, ...inTenants, ...inNone].filter((name) => !given.test(name) && !kept.test(name));
}

/** Dependents of the deleted objects are deleted with a delay. */
async function untilNothingOf(kubectl: Kubectl, release: Release): Promise<void> {
  let left: readonly string[] = [];
  const ask = async (): Promise<true | undefined> => {
    left = await objectsOf(kubectl, release);
    return left.length === 0 ? true : undefined;
  };
  await until('nothing to be left', ask).catch(() => assert.deepEqual(left, []));
}

async function sendsAsBefore({ sender }: Stage, release: Release, { key }: OnboardedTenant): Promise<void> {
  const { token, answer } = await sender.one(release.origin(), key);
  assert.equal(shownAnswer(answer), '202');
  await sender.arrival(token);
}
