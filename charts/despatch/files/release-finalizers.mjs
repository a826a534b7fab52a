// Removes the controller's finalizers from Tenants and Plans before the uninstall, so that these can be deleted without it.
// Stops the controller first, because it would add them again. Plain JavaScript that uses only Node's own modules.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const { API_SERVER, TOKEN_FILE, NAMESPACE, DEPLOYMENT, WATCH_NAMESPACES = '', PLAN_FINALIZER } = process.env;
// LEASE is empty without leader election.
const { LEASE = '', LEASE_FREE_SECONDS = '5', GRACE_SECONDS = '45' } = process.env;
const TENANT_FINALIZER = 'tenant.despatch.dev/finalizer';
const GROUP = '/apis/despatch.dev/v1alpha1';
const PAGE = 200;
/** Requests under way at once: an uninstall with thousands of Tenants must end within the Job's deadline. */
const AT_ONCE = 10;

async function call(method, path, body, contentType = 'application/merge-patch+json') {
  const answer = await fetch(`${API_SERVER}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${readFileSync(TOKEN_FILE, 'utf8').trim()}`,
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': contentType }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(20_000),
  });
  return { status: answer.status, body: await answer.json() };
}

function refuse(action, { status, body }) {
  throw new Error(`${action}: the API server answered ${status}: ${body.message ?? ''}`);
}

async function stopController() {
  const path = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${DEPLOYMENT}`;
  const scaled = await call('PATCH', `${path}/scale`, { spec: { replicas: 0 } });
  if (scaled.status === 404) return;
  if (scaled.status !== 200) refuse('stopping the controller', scaled);
  for (;;) {
    const found = await call('GET', path);
    if (found.status === 404) return;
    if (found.status !== 200) refuse('watching the controller end', found);
    const { metadata, status = {} } = found.body;
    const isSeen = (status.observedGeneration ?? 0) >= metadata.generation;
    if (isSeen && (status.replicas ?? 0) === 0 && (status.terminatingReplicas ?? 0) === 0) break;
    await sleep(500);
  }
  await (LEASE === '' ? sleep(Number(GRACE_SECONDS) * 1_000) : endOfLease());
}

/**
 * Waits until no controller can write any more. Pods that are shutting down are no replicas, and their leader writes until it
 * gives up the lease or is killed. The lease has to stay free for a while, because another pod that is shutting down may take
 * it. Expiry is measured by this process alone: no change for the lease's duration.
 */
async function endOfLease() {
  let seen;
  let changedAt = 0;
  for (;;) {
    const found = await call('GET', `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/${LEASE}`);
    if (found.status !== 200 && found.status !== 404) refuse('reading the lease', found);
    const { holderIdentity = '', leaseDurationSeconds = 0, renewTime } = found.body.spec ?? {};
    const state = JSON.stringify([holderIdentity, renewTime]);
    if (state !== seen) changedAt = performance.now();
    seen = state;
    const freeSeconds = Number(LEASE_FREE_SECONDS);
    const untilOver = holderIdentity === '' ? freeSeconds : Math.max(freeSeconds, leaseDurationSeconds);
    if (performance.now() - changedAt >= untilOver * 1_000) return;
    await sleep(500);
  }
}

/** Yields the objects page by page. */
async function* listed(path) {
  let token = '';
  do {
    const page = await call('GET', `${path}?limit=${PAGE}&continue=${encodeURIComponent(token)}`);
    // Without the definition there are no objects and no finalizers.
    if (page.status === 404) return;
    if (page.status !== 200) refuse(`listing ${path}`, page);
    yield page.body.items;
    token = page.body.metadata.continue ?? '';
  } while (token !== '');
}

/** Removes one finalizer and no other; reads the object again after a conflicting change. */
async function release(path, finalizer) {
  for (;;) {
    const found = await call('GET', path);
    if (found.status === 404) return false;
    if (found.status !== 200) refuse(`reading ${path}`, found);
    const { resourceVersion, finalizers = [] } = found.body.metadata;
    if (!finalizers.includes(finalizer)) return false;
    const metadata = { resourceVersion, finalizers: finalizers.filter((one) => one !== finalizer) };
    const patched = await call('PATCH', path, { metadata });
    if (patched.status === 200) return true;
    if (patched.status !== 409 && patched.status !== 404) refuse(`releasing ${path}`, patched);
  }
}

/** Releases all objects of a list. @returns how many had the finalizer. */
async function releaseAll(list, pathOf, finalizer) {
  let released = 0;
  for await (const items of listed(list)) {
    const left = items.values();
    const work = async () => {
      for (const { metadata } of left) if (await release(pathOf(metadata), finalizer)) released += 1;
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }
  return released;
}

const namespaces = WATCH_NAMESPACES.split(',').filter((name) => name !== '');
const lists =
  namespaces.length === 0
    ? [`${GROUP}/tenants`]
    : namespaces.map((name) => `${GROUP}/namespaces/${name}/tenants`);
const tenantPath = ({ namespace, name }) => `${GROUP}/namespaces/${namespace}/tenants/${name}`;
const planPath = ({ name }) => `${GROUP}/plans/${name}`;

await stopController();
let released = 0;
for (const list of lists) released += await releaseAll(list, tenantPath, TENANT_FINALIZER);
released += await releaseAll(`${GROUP}/plans`, planPath, PLAN_FINALIZER);
console.log(`Released ${released} resources`);
