import assert from 'node:assert/strict';
import { violationsOf } from '../compare-ledgers.ts';
import { LATER_MIGRATION, TAGS } from '../cluster/image.ts';
import { figuresOf, untilFlowing } from '../load.ts';
import { until } from '../poll.ts';
import { isReady, tagOf, type Release } from '../release.ts';
import type { Item } from '../run-items.ts';
import type { Stage } from '../stage.ts';
import { tenantManifest, tenantReady } from '../tenant.ts';

const SERVING = ['api', 'worker'] as const;

export const rollout: Item<Stage> = {
  number: 3,
  title: 'Restart and upgrade under load',
  async run(stage, step) {
    const { kubectl, ledger, note } = stage;
    const release = await stage.release();
    const { tenantNamespace } = release;
    await stage.loadSet();

    await using load = await step('a load runs through the NodePort', async () => {
      const running = await stage.startLoad();
      await untilFlowing(ledger);
      return running;
    });
    await step('all pods of all three are restarted, and a Tenant becomes Ready meanwhile', async () => {
      const restarted = release.restart();
      await kubectl.apply(tenantManifest(tenantNamespace, 'during-restart'));
      await tenantReady(kubectl, tenantNamespace, 'during-restart', 120);
      await restarted;
    });
    await step('an upgrade migrates the schema with old and new pods side by side', async () => {
      await using watch = watchMix(release);
      await release.deploy(TAGS.second);
      await release.settled();
      assert.ok(await isMigrated(release), `${LATER_MIGRATION} was not applied`);
      for (const component of SERVING) {
        assert.ok(
          watch.mixed.has(component),
          `no moment with ready ${component} pods of both images was seen`,
        );
        // A pod of the old image may still be terminating within its grace period.
        await until(`no ${component} pod of before is left`, async () => {
          const tags = new Set((await release.pods(component)).map(tagOf));
          return tags.size === 1 && tags.has(TAGS.second) ? tags : undefined;
        });
      }
    });
    await step('no request failed, and none was held back', async () => {
      await untilFlowing(ledger);
      const totals = await load.stop();
      const { unavailable, unanswered, undecided, shed, unexpected } = totals;
      const figures = await figuresOf(ledger, load.startedAt);
      note(
        `${figures.acknowledged} acknowledged, median ${figures.medianMs} ms, 99 % ${figures.p99Ms} ms, ` +
          `slowest ${figures.slowestMs} ms, longest gap ${figures.gapMs} ms`,
      );
      const none = { unavailable: 0, unanswered: 0, undecided: 0, shed: 0, unexpected: [] };
      assert.deepEqual({ unavailable, unanswered, undecided, shed, unexpected }, none);
      assert.ok(figures.acknowledged > 0);
    });
    await step('nothing was lost, nothing doubled, and no limit passed', async () => {
      const checked = await stage.compare();
      note(`${checked.acknowledged} promised, ${checked.stored} stored, ${checked.calls} calls`);
      assert.deepEqual(violationsOf(checked), []);
      // No call was cut off, so none was repeated to resolve an ambiguous attempt.
      assert.deepEqual(checked.repeats, { duplicateRisk: 0, askedFor: 0, silent: 0, unexplained: 0 });
    });
    await step('a Tenant becomes Ready with the new image', async () => {
      await kubectl.apply(tenantManifest(tenantNamespace, 'after-upgrade'));
      await tenantReady(kubectl, tenantNamespace, 'after-upgrade');
    });
  },
};

/** Polls for moments in which ready pods of more than one image serve at the same time. */
function watchMix(release: Release): AsyncDisposable & { readonly mixed: ReadonlySet<string> } {
  const mixed = new Set<string>();
  const ending = new AbortController();
  const look = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      for (const component of SERVING) {
        const ready = (await release.pods(component).catch(() => [])).filter(isReady);
        if (new Set(ready.map(tagOf)).size > 1 && (await isMigrated(release))) mixed.add(component);
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  };
  const looking = look();
  return {
    mixed,
    async [Symbol.asyncDispose]() {
      ending.abort();
      await looking;
    },
  };
}

async function isMigrated({ own }: Release): Promise<boolean> {
  const rows = await own.ask((sql) => sql`select from migrations where name = ${LATER_MIGRATION}`);
  return rows.length > 0;
}
