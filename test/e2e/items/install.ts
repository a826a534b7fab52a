import { writtenLimits } from '../../../services/controller/resources/limit-fields.ts';
import assert from 'node:assert/strict';
import { FREE, PLAN_NAMES } from '#core/domain/tenant/plan.ts';
import { isReady, COMPONENTS } from '../release.ts';
import type { Item } from '../run-items.ts';
import { shownAnswer } from '../send.ts';
import type { Stage } from '../stage.ts';
import { PLANS, shownCondition, TENANTS, tenantManifest, tenantReady } from '../tenant.ts';

export const install: Item<Stage> = {
  number: 1,
  title: 'From nothing to a message at its provider',
  async run(stage, step) {
    const { kubectl, sender } = stage;
    await step('the image builds from the Dockerfile and the cluster takes it', stage.images);
    const release = await step(
      'the chart installs where only restricted pods are admitted, and everything becomes ready',
      stage.release,
    );
    await step('every pod of the three kinds is ready, and none was restarted', async () => {
      for (const component of COMPONENTS) {
        const pods = await release.pods(component);
        assert.ok(pods.length >= 2, `${pods.length} pods of the ${component}`);
        assert.ok(pods.every(isReady), `not all pods of the ${component} are ready`);
        const restarts = pods.flatMap(({ status }) =>
          (status.containerStatuses as { restartCount: number }[]).map(({ restartCount }) => restartCount),
        );
        assert.deepEqual(
          restarts,
          pods.map(() => 0),
        );
      }
    });
    await step('helm test is green', release.test);
    await step('the four built-in plans are there and ready', async () => {
      for (const name of PLAN_NAMES) await kubectl.wait(`${PLANS}/${name}`, 'condition=Ready', 60);
    });

    const name = 'first';
    await step('a Tenant applied with kubectl becomes Ready on the free plan', async () => {
      await kubectl.apply(tenantManifest(release.tenantNamespace, name));
      const tenant = await tenantReady(kubectl, release.tenantNamespace, name);
      assert.equal(tenant.status.slug, name);
      assert.deepEqual(tenant.status.effectiveLimits, writtenLimits(FREE));
      assert.equal(tenant.status.plan.name, 'free');
      const conditions = ['PlanResolved', 'KeyProvisioned', 'Applied'].map((type) =>
        shownCondition(tenant, type),
      );
      assert.deepEqual(conditions, ['True', 'True', 'True']);
      assert.equal(shownCondition(tenant, 'Suspended'), 'False (Active)');
    });
    const tenant = await step('its owner signs in, connects a provider and makes a key', () =>
      stage.newTenant(release, name),
    );
    await step("a message sent with that tenant's key reaches its provider", async () => {
      const { token, answer } = await sender.one(release.origin(), tenant.key);
      assert.equal(shownAnswer(answer), '202');
      await sender.arrival(token);
    });
    await step('a Tenant that says what makes no sense is refused at once', async () => {
      const manifest = tenantManifest(release.tenantNamespace, 'odd', {
        state: 'Active',
        suspendReason: 'abuse',
      });
      const { code, stderr } = await kubectl.try(['apply', '-f', '-'], { input: JSON.stringify(manifest) });
      assert.notEqual(code, 0);
      assert.match(stderr, /suspendReason/);
      assert.equal((await kubectl.try(['get', TENANTS, 'odd', '-n', release.tenantNamespace])).code, 1);
    });
  },
};
