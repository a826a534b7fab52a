import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { seededRandom } from '../../fault/random.ts';
import { violationsOf } from '../compare-ledgers.ts';
import { conditionOf } from '../cluster/kubectl.ts';
import { figuresOf, untilFlowing, type RunningLoad } from '../load.ts';
import { until } from '../poll.ts';
import { componentOf, COMPONENTS, isReady, LEASE, type Release } from '../release.ts';
import type { Item } from '../run-items.ts';
import type { Scene } from '../scene.ts';
import { shownAnswer } from '../send.ts';
import type { Stage } from '../stage.ts';
import { tenantManifest, tenantReady, TENANTS } from '../tenant.ts';

/** Each kind of pod is terminated once and killed once, and two more pods are drawn at random. */
const ROUNDS = 8;
const SEALED_MS = 60_000;
/** Pods per Deployment, by the chart's defaults. */
const REPLICAS = 2;

export const faults: Item<Stage> = {
  number: 4,
  title: 'Pods, leader, NATS and Vault fail under load',
  async run(stage, step) {
    const release = await stage.release();
    const scene = { stage, step, release };
    const { ordinary } = await stage.loadSet();
    const key = ordinary[0]?.key ?? '';
    await using load = await step('a load runs through the NodePort', async () => {
      const running = await stage.startLoad();
      await untilFlowing(stage.ledger);
      return running;
    });
    await deletePods(scene);
    await loseLeader(scene);
    await loseStore(scene, key);
    await sealVault(scene, key);
    await settle(scene, load);
  },
};

async function deletePods({ stage, step, release }: Scene): Promise<void> {
  await step(`${ROUNDS} pods are deleted at random, and each time all are ready again`, async () => {
    const random = seededRandom(stage.options.seed);
    for (let round = 0; round < ROUNDS; round++) {
      const isByLot = round >= 2 * COMPONENTS.length;
      const component = isByLot ? random.pick(COMPONENTS) : COMPONENTS[round % COMPONENTS.length];
      const isKilled = isByLot ? random.next() < 0.5 : round >= COMPONENTS.length;
      const { metadata } = random.pick((await release.pods(component)).filter(isReady));
      const readyMs = await deletePod(stage, release, metadata.name, isKilled);
      stage.note(
        `${isKilled ? 'killed' : 'deleted'} ${metadata.name}: all ready again after ${shown(readyMs)}`,
      );
    }
  });
}

async function loseLeader({ stage, step, release }: Scene): Promise<void> {
  const { kubectl, note } = stage;
  const { tenantNamespace } = release;
  await step('the leader is killed, and another one reconciles', async () => {
    const leader = await until('a leader', release.leader);
    const startedAt = Date.now();
    const ready = deletePod(stage, release, leader, true);
    await until('another leader', async () => {
      const now = await release.leader();
      return now === undefined || now === leader ? undefined : now;
    });
    const ledMs = Date.now() - startedAt;
    await kubectl.apply(tenantManifest(tenantNamespace, 'after-leader'));
    await tenantReady(kubectl, tenantNamespace, 'after-leader');
    note(`led again after ${shown(ledMs)}, a Tenant Ready after ${shown(Date.now() - startedAt)}`);
    await ready;
  });
  await step('the Lease is deleted, and whoever leads then makes it anew', async () => {
    await kubectl.delete('leases.coordination.k8s.io', LEASE, '--namespace', release.namespace);
    await until('a leader', release.leader);
    await kubectl.apply(tenantManifest(tenantNamespace, 'after-lease'));
    await tenantReady(kubectl, tenantNamespace, 'after-lease');
  });
}

async function loseStore({ stage, step, release }: Scene, key: string): Promise<void> {
  await step('NATS comes back with an empty store, and messages go on', async () => {
    const { nats } = release.own;
    await nats.kill();
    await rm(nats.storeDir, { recursive: true, force: true });
    await nats.restart();
    const startedAt = Date.now();
    await sendAndArrive(stage, release, key);
    stage.note(`a message at its provider ${shown(Date.now() - startedAt)} after NATS was back`);
  });
}

async function sealVault({ stage, step, release }: Scene, key: string): Promise<void> {
  const { backends, kubectl, sender, note } = stage;
  const { tenantNamespace } = release;
  const name = 'during-seal';
  await step('while Vault is sealed for a minute, messages are taken and new Tenants wait', async () => {
    await backends.vault.seal();
    const sealedAt = Date.now();
    await kubectl.apply(tenantManifest(tenantNamespace, name));
    await until('a Tenant that waits for Vault', async () => {
      const tenant = await kubectl.get(TENANTS, name, tenantNamespace);
      return conditionOf(tenant, 'KeyProvisioned')?.reason === 'VaultUnavailable' ? true : undefined;
    });
    while (Date.now() < sealedAt + SEALED_MS) {
      assert.equal(shownAnswer((await sender.one(release.origin(), key)).answer), '202');
      await new Promise((resolve) => setTimeout(resolve, 5_000));
    }
    await backends.vault.unseal();
  });
  await step('when it is unsealed everything goes on by itself', async () => {
    const unsealedAt = Date.now();
    await tenantReady(kubectl, tenantNamespace, name, 180);
    note(`the Tenant was Ready ${shown(Date.now() - unsealedAt)} after Vault was unsealed`);
    await sendAndArrive(stage, release, key);
    await release.settled();
  });
}

async function settle({ stage, step }: Scene, load: RunningLoad): Promise<void> {
  const { ledger, note } = stage;
  await step('every request was decided in the end', async () => {
    await untilFlowing(ledger);
    const { unavailable, unanswered, replayed, undecided, shed, unexpected } = await load.stop();
    const { acknowledged, medianMs, p99Ms, gapMs } = await figuresOf(ledger, load.startedAt);
    note(
      `${acknowledged} acknowledged, ${unavailable} times 503, ${unanswered} times no answer, ${replayed} replays`,
    );
    note(`median ${medianMs} ms, 99 % ${p99Ms} ms, longest time without an acknowledgement ${gapMs} ms`);
    assert.deepEqual({ undecided, shed, unexpected }, { undecided: 0, shed: 0, unexpected: [] });
  });
  await step('nothing was lost, nothing doubled without saying so', async () => {
    const checked = await stage.compare();
    const { duplicateRisk, askedFor, unexplained } = checked.repeats;
    note(`${checked.acknowledged} promised, ${checked.stored} stored, ${checked.calls} calls`);
    note(
      `second calls: ${duplicateRisk} with duplicateRisk, ${askedFor} asked for, ${unexplained} unexplained`,
    );
    assert.deepEqual(violationsOf(checked), []);
  });
}

/** @returns milliseconds until all pods were ready again. */
async function deletePod(
  { kubectl }: Stage,
  release: Release,
  name: string,
  isKilled: boolean,
): Promise<number> {
  const startedAt = Date.now();
  const how = isKilled ? ['--grace-period=0', '--force'] : ['--wait=false'];
  await kubectl.delete('pod', name, '--namespace', release.namespace, ...how);
  const areReady = async (): Promise<true | undefined> => {
    const ready = (await release.pods()).filter(isReady).map(componentOf);
    const counts = COMPONENTS.map((component) => ready.filter((one) => one === component).length);
    return counts.every((count) => count >= REPLICAS) ? true : undefined;
  };
  await until(`all pods to be ready again without ${name}`, areReady, 180_000);
  return Date.now() - startedAt;
}

async function sendAndArrive({ sender }: Stage, release: Release, key: string): Promise<void> {
  const { token, answer } = await sender.one(release.origin(), key);
  assert.equal(shownAnswer(answer), '202');
  await sender.arrival(token);
}

function shown(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
