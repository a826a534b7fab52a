import assert from 'node:assert/strict';
import { TAGS } from '../cluster/image.ts';
import { until } from '../poll.ts';
import type { Release } from '../release.ts';
import type { Item, Step } from '../run-items.ts';
import { shownAnswer } from '../send.ts';
import { ROOMY_LIMITS, type Stage } from '../stage.ts';
import { rowsNaming } from '../stored-rows.ts';
import { PLANS, planManifest, tenantReady, TENANTS, type OnboardedTenant } from '../tenant.ts';

/** The same name in both releases, so that only the namespace distinguishes them. */
const NAME = 'twin';
const PLAN = 'e2e-shared';

export const twoReleases: Item<Stage> = {
  number: 5,
  title: 'Two releases in one cluster',
  async run(stage, step) {
    const main = await stage.release();
    const other = await step('a second release, without definitions, installs beside the first', async () => {
      const release = await stage.otherRelease();
      await release.deploy(TAGS.first);
      return release;
    });
    await stage.kubectl.apply(planManifest(PLAN, ROOMY_LIMITS));
    const spec = { planRef: { name: PLAN }, deletionPolicy: 'Purge' } as const;
    const [mine, theirs] = await step('a Tenant of the same name becomes Ready in each', () =>
      Promise.all([stage.newTenant(main, NAME, spec), stage.newTenant(other, NAME, spec)]),
    );
    await lookAtBoth(stage, step, [
      { release: main, own: mine, foreign: theirs },
      { release: other, own: theirs, foreign: mine },
    ]);
    await partWays(stage, step, { main, other, theirs });
  },
};

type Side = {
  readonly release: Release;
  readonly own: OnboardedTenant;
  readonly foreign: OnboardedTenant;
};

async function lookAtBoth(
  { sender, kubectl }: Stage,
  step: Step,
  sides: readonly [Side, Side],
): Promise<void> {
  await step('neither release knows the tenant of the other, nor takes its key', async () => {
    for (const { release, own, foreign } of sides) {
      assert.notEqual(own.id, foreign.id);
      assert.deepEqual(await idsOf(release, NAME), [own.id]);
      assert.deepEqual(await release.own.ask((sql) => rowsNaming(sql, foreign.id)), {});
      assert.equal(shownAnswer((await sender.one(release.origin(), own.key)).answer), '202');
      assert.match(shownAnswer((await sender.one(release.origin(), foreign.key)).answer), /^401/);
    }
  });
  await step('a change of one Tenant does not touch the other', async () => {
    const [{ own: mine }, { own: theirs }] = sides;
    const version = async (): Promise<string> =>
      (await kubectl.get(TENANTS, NAME, theirs.namespace)).metadata.resourceVersion;
    const before = await version();
    await kubectl.patch(TENANTS, NAME, { spec: { displayName: 'Mine' } }, mine.namespace);
    await tenantReady(kubectl, mine.namespace, NAME);
    assert.equal(await version(), before);
  });
}

type Parting = { readonly main: Release; readonly other: Release; readonly theirs: OnboardedTenant };

async function partWays(stage: Stage, step: Step, { main, other, theirs }: Parting): Promise<void> {
  const { kubectl, sender } = stage;
  const deleteFrom = ({ tenantNamespace }: Release): Promise<void> =>
    kubectl.delete(TENANTS, NAME, '--namespace', tenantNamespace, '--timeout=90s');
  await step('a plan of both stays in use when one of them has let go of it', async () => {
    await untilHeldBy(stage, [main, other]);
    await kubectl.delete(PLANS, PLAN, '--wait=false');
    await deleteFrom(main);
    assert.deepEqual(await idsOf(main, NAME), []);
    await untilHeldBy(stage, [other]);
  });
  await step("the purge of one tenant has left the other's alone", async () => {
    const { token, answer } = await sender.one(other.origin(), theirs.key);
    assert.equal(shownAnswer(answer), '202');
    await sender.arrival(token);
    await tenantReady(kubectl, other.tenantNamespace, NAME);
  });
  await step('the second release goes, and the first goes on', async () => {
    await deleteFrom(other);
    await kubectl.wait(`${PLANS}/${PLAN}`, 'delete', 60);
    await other.uninstall();
    await kubectl.get('customresourcedefinition', TENANTS);
    await stage.newTenant(main, 'after-other');
  });
}

/** Waits until exactly these releases hold a finalizer on the plan. */
async function untilHeldBy({ kubectl }: Stage, releases: readonly Release[]): Promise<void> {
  const expected = releases.map(({ namespace }) => `plan.despatch.dev/${namespace}.despatch`);
  let held: readonly string[] = [];
  const ask = async (): Promise<true | undefined> => {
    held = (await kubectl.get(PLANS, PLAN)).metadata.finalizers ?? [];
    return held.toSorted().join() === expected.toSorted().join() ? true : undefined;
  };
  await until('the plan to be held', ask).catch(() => assert.deepEqual(held, expected));
}

async function idsOf({ own }: Release, slug: string): Promise<string[]> {
  const rows = await own.ask((sql) => sql<{ id: string }[]>`select id from tenants where slug = ${slug}`);
  return rows.map(({ id }) => id);
}
