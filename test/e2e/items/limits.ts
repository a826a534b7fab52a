import assert from 'node:assert/strict';
import { until } from '../poll.ts';
import type { Item } from '../run-items.ts';
import type { Scene } from '../scene.ts';
import { shownAnswer } from '../send.ts';
import { ROOMY_LIMITS, type Stage } from '../stage.ts';
import { rowsNaming } from '../stored-rows.ts';
import {
  PLANS,
  planManifest,
  shownCondition,
  tenantManifest,
  tenantReady,
  TENANTS,
  type OnboardedTenant,
} from '../tenant.ts';

const PLAN = 'e2e-small';
const PER_DAY = 30;
const PER_DAY_LATER = 45;
const PER_MINUTE = 20;
/** How long api and workers may use cached values, and a margin for a busy machine. */
const KNOWN_MS_MAX = 30_000;

export const limits: Item<Stage> = {
  number: 2,
  title: 'Limits, suspension, purge and return',
  async run(stage, step) {
    const release = await stage.release();
    const scene = { stage, step, release };
    await stage.kubectl.apply(planManifest(PLAN, { ...ROOMY_LIMITS, messagesPerDay: PER_DAY }));
    const tenant = await stage.newTenant(release, 'limited', { planRef: { name: PLAN } });
    await holdTheDay(scene, tenant);
    await keepPlanInUse(scene, tenant);
    await holdTheMinute(scene);
    await suspendAndResume(scene, tenant);
    await purge(scene);
    await pruneAndReturn(scene, tenant);
  },
};

async function holdTheDay(scene: Scene, tenant: OnboardedTenant): Promise<void> {
  const { step, stage, release } = scene;
  const { kubectl, sender } = stage;
  await step(`of ${PER_DAY + 10} messages at once exactly the plan's ${PER_DAY} a day pass`, async () => {
    const { counts } = await sender.many(release.origin(), tenant.key, PER_DAY + 10);
    assert.deepEqual(counts, { 202: PER_DAY, '429 daily_limit_reached': 10 });
  });
  await step('changing the plan changes the limit, to the message', async () => {
    await kubectl.patch(PLANS, PLAN, { spec: { limits: { messagesPerDay: PER_DAY_LATER } } });
    const { metadata } = await kubectl.get(PLANS, PLAN);
    const seen = `jsonpath={.status.plan.generation}=${metadata.generation}`;
    await kubectl.wait(`${TENANTS}/${tenant.name}`, seen, 60, '--namespace', tenant.namespace);
    await exactlyPass(scene, tenant, PER_DAY_LATER - PER_DAY);
  });
  await step('an override in the Tenant holds before the plan', async () => {
    await patchTenant(scene, tenant, { limits: { messagesPerDay: PER_DAY_LATER + 1 } });
    const { status } = await tenantReady(kubectl, tenant.namespace, tenant.name);
    assert.equal(status.effectiveLimits.messagesPerDay, PER_DAY_LATER + 1);
    await exactlyPass(scene, tenant, 1);
  });
  await step('another plan takes the place of the first', async () => {
    await patchTenant(scene, tenant, { planRef: { name: 'growth' }, limits: null });
    const { status } = await tenantReady(kubectl, tenant.namespace, tenant.name);
    assert.equal(status.plan.name, 'growth');
    await untilAnswered(scene, tenant, '202');
  });
}

async function keepPlanInUse(scene: Scene, tenant: OnboardedTenant): Promise<void> {
  const { kubectl } = scene.stage;
  await scene.step('a plan in use goes only when its last tenant has left it', async () => {
    await patchTenant(scene, tenant, { planRef: { name: PLAN } });
    await tenantReady(kubectl, tenant.namespace, tenant.name);
    await kubectl.wait(`${PLANS}/${PLAN}`, 'condition=InUse', 60);
    await kubectl.delete(PLANS, PLAN, '--wait=false');
    await untilAnswered(scene, tenant, '429 daily_limit_reached');
    assert.notEqual((await kubectl.get(PLANS, PLAN)).metadata.deletionTimestamp, undefined);
    await patchTenant(scene, tenant, { planRef: { name: 'growth' } });
    await kubectl.wait(`${PLANS}/${PLAN}`, 'delete', 60);
  });
}

async function holdTheMinute({ stage, step, release }: Scene): Promise<void> {
  const hurried = await stage.newTenant(release, 'hurried', {
    limits: { sendRequestsPerMinute: PER_MINUTE },
  });
  await step(
    `of ${PER_MINUTE + 10} requests at once exactly the ${PER_MINUTE} of a minute pass`,
    async () => {
      const { counts, answers } = await stage.sender.many(release.origin(), hurried.key, PER_MINUTE + 10);
      assert.deepEqual(counts, { 202: PER_MINUTE, '429 rate_limited': 10 });
      const refused = answers.filter(({ status }) => status === 429);
      const waits = refused.map(({ headers }) => Number(headers.get('retry-after')));
      assert.ok(
        waits.every((wait) => wait >= 1 && wait <= 61),
        `Retry-After: ${waits.join()}`,
      );
    },
  );
}

async function suspendAndResume(scene: Scene, tenant: OnboardedTenant): Promise<void> {
  const { kubectl } = scene.stage;
  await scene.step('a suspended Tenant is refused within seconds, and taken again when resumed', async () => {
    await patchTenant(scene, tenant, { state: 'Suspended', suspendReason: 'billing' });
    const suspended = await tenantReady(kubectl, tenant.namespace, tenant.name);
    assert.equal(shownCondition(suspended, 'Suspended'), 'True');
    await untilAnswered(scene, tenant, '403 tenant_suspended');
    await patchTenant(scene, tenant, { state: 'Active', suspendReason: null });
    const resumed = await tenantReady(kubectl, tenant.namespace, tenant.name);
    assert.equal(shownCondition(resumed, 'Suspended'), 'False (Active)');
    await untilAnswered(scene, tenant, '202');
  });
}

async function purge(scene: Scene): Promise<void> {
  const { stage, step, release } = scene;
  const { kubectl, backends, sender } = stage;
  await step('a purge leaves no row and no key', async () => {
    const tenant = await stage.newTenant(release, 'purged', { deletionPolicy: 'Purge' });
    const rows = () => release.own.ask((sql) => rowsNaming(sql, tenant.id));
    const key = () => backends.vault.request('GET', `transit/keys/${release.vaultKeyPrefix}${tenant.id}`);
    assert.deepEqual((await sender.many(release.origin(), tenant.key, 20)).counts, { 202: 20 });
    assert.notDeepEqual(await rows(), {});
    assert.equal((await key()).status, 200);
    await kubectl.delete(TENANTS, tenant.name, '--namespace', tenant.namespace, '--timeout=90s');
    // The remaining row records only that the resource with this UID is gone. A later pass deletes the numbered changes.
    await until('only the resource that is gone is known', async () => {
      assert.deepEqual(await rows(), { gone_resources: 1 });
      return true;
    });
    assert.equal((await key()).status, 404);
    await untilRefused(scene, tenant, 401);
  });
}

async function pruneAndReturn(scene: Scene, tenant: OnboardedTenant): Promise<void> {
  const { stage, release } = scene;
  const { kubectl, sender } = stage;
  await scene.step(
    'a pruned Tenant is kept, refused, and goes on as before when it is applied again',
    async () => {
      await kubectl.delete(TENANTS, tenant.name, '--namespace', tenant.namespace, '--timeout=60s');
      await untilAnswered(scene, tenant, '403 tenant_suspended');
      await kubectl.apply(tenantManifest(tenant.namespace, tenant.name, { planRef: { name: 'growth' } }));
      const { status } = await tenantReady(kubectl, tenant.namespace, tenant.name);
      assert.equal(status.tenantId, tenant.id);
      await untilAnswered(scene, tenant, '202');
      const { token } = await sender.one(release.origin(), tenant.key);
      await sender.arrival(token);
    },
  );
}

function patchTenant({ stage }: Scene, { name, namespace }: OnboardedTenant, spec: object): Promise<void> {
  return stage.kubectl.patch(TENANTS, name, { spec }, namespace);
}

/**
 * Sends until so many messages were accepted, for as long as a process may use cached values, and checks that no more are
 * accepted.
 */
async function exactlyPass(
  { stage, release }: Scene,
  { key }: OnboardedTenant,
  count: number,
): Promise<void> {
  let passed = 0;
  const send = async (n: number) => (await stage.sender.many(release.origin(), key, n)).counts;
  const ask = async (): Promise<true | undefined> => {
    passed += (await send(5))['202'] ?? 0;
    return passed >= count ? true : undefined;
  };
  await until(`${count} more messages to pass`, ask, KNOWN_MS_MAX);
  assert.equal(passed, count);
  assert.deepEqual(await send(10), { '429 daily_limit_reached': 10 });
}

/** Sends until the answer is the expected one, for as long as a process may use cached values. */
async function untilAnswered(scene: Scene, tenant: OnboardedTenant, expected: string): Promise<void> {
  await untilSome(scene, tenant, expected, (shown) => shown === expected);
}

async function untilRefused(scene: Scene, tenant: OnboardedTenant, status: number): Promise<void> {
  await untilSome(scene, tenant, String(status), (shown) => shown.startsWith(`${status} `));
}

async function untilSome(
  { stage, release }: Scene,
  { key }: OnboardedTenant,
  expected: string,
  isExpected: (shown: string) => boolean,
): Promise<void> {
  let last = 'nothing';
  const ask = async (): Promise<true | undefined> => {
    last = shownAnswer((await stage.sender.one(release.origin(), key)).answer);
    return isExpected(last) ? true : undefined;
  };
  await until(`the answer ${expected}`, ask, KNOWN_MS_MAX).catch((error: unknown) => {
    throw new Error(`answered ${last} instead of ${expected}`, { cause: error });
  });
}
