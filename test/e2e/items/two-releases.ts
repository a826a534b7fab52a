import assert from 'node:assert/strict';
import { TAGS } from '../cluster/image.ts';
import type { Release } from '../release.ts';
import type { Item } from '../run-items.ts';
import { shownAnswer } from '../send.ts';
import { ROOMY_LIMITS, type Stage } from '../stage.ts';
import { rowsNaming } from '../stored-rows.ts';
import { PLANS, planManifest, tenantReady, TENANTS } from '../tenant.ts';

/** The same name on both sides, so that nothing but the namespace tells them apart. */
const NAME = 'twin';
const PLAN = 'e2e-shared';

export const twoReleases: Item<Stage> = {
  number: 5,
  title: 'Two releases in one cluster',
  async run(stage, step) {
    const { kubectl, sender } = stage;
    const main = await stage.release();
    const other = await step('a second release without definitions installs beside the first', async () => {
      const release = await stage.otherRelease();
      await release.deploy(TAGS.first);
      return release;
    });
    await kubectl.apply(planManifest(PLAN, ROOMY_LIMITS));
    const spec = { planRef: { name: PLAN }, deletionPolicy: 'Purge' } as const;
    const [mine, theirs] = await step('a Tenant of the same name becomes Ready in each', () =>
      Promise.all([stage.newTenant(main, NAME, spec), stage.newTenant(other, NAME, spec)]),
    );
    await step('neither release knows the tenant of the other, nor takes its key', async () => {
      assert.notEqual(mine.id, theirs.id);
      assert.deepEqual(await slugs(main, NAME), [mine.id]);
      assert.deepEqual(await slugs(other, NAME), [theirs.id]);
      assert.deepEqual(await main.own.ask((sql) => rowsNaming(sql, theirs.id)), {});
      assert.deepEqual(await other.own.ask((sql) => rowsNaming(sql, mine.id)), {});
      for (const [release, own, foreign] of [
        [main, mine, theirs],
        [other, theirs, mine],
      ] as const) {
        assert.equal(shownAnswer((await sender.one(release.origin(), own.key)).answer), '202');
        assert.match(shownAnswer((await sender.one(release.origin(), foreign.key)).answer), /^401/);
      }
    });
    await step('a Tenant of a namespace that nobody watches is left alone', async () => {
      const { resourceVersion } = (await kubectl.get(TENANTS, NAME, other.tenantNamespace)).metadata as never;
      await kubectl.patch(TENANTS, NAME, { spec: { displayName: 'Ours' } }, main.tenantNamespace);
      await tenantReady(kubectl, main.tenantNamespace, NAME);
      const after = (await kubectl.get(TENANTS, NAME, other.tenantNamespace)).metadata as never as {
        resourceVersion: string;
      };
      assert.equal(after.resourceVersion, resourceVersion);
    });
    await step('a shared plan stays in use until both have let go of it', async () => {
      await kubectl.wait(`${PLANS}/${PLAN}`, 'condition=InUse', 30);
      await kubectl.delete(PLANS, PLAN, '--wait=false');
      await kubectl.delete(TENANTS, NAME, '--namespace', main.tenantNamespace, '--timeout=90s');
      assert.deepEqual(await slugs(main, NAME), []);
      const plan = await kubectl.get(PLANS, PLAN);
      assert.equal(plan.metadata.finalizers?.length, 1, `finalizers: ${plan.metadata.finalizers?.join()}`);
    });
    await step("the purge of one tenant has left the other's alone", async () => {
      const { token, answer } = await sender.one(other.origin(), theirs.key);
      assert.equal(shownAnswer(answer), '202');
      await sender.arrival(token);
      await tenantReady(kubectl, other.tenantNamespace, NAME);
    });
    await step('the second release goes, and the first goes on', async () => {
      await kubectl.delete(TENANTS, NAME, '--namespace', other.tenantNamespace, '--timeout=90s');
      await kubectl.wait(`${PLANS}/${PLAN}`, 'delete', 60);
      await other.uninstall();
      await kubectl.get('customresourcedefinition', TENANTS);
      await stage.newTenant(main, 'after-other');
    });
  },
};

async function slugs({ own }: Release, slug: string): Promise<string[]> {
  const rows = await own.ask((sql) => sql<{ id: string }[]>`select id from tenants where slug = ${slug}`);
  return rows.map(({ id }) => id);
}
