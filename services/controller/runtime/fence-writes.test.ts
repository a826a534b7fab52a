import { expect, test } from 'vitest';
import type { KubeClient } from '../kube/kube-client.ts';
import type { KubeObject, KubeResource } from '../kube/kube-object.ts';
import { createMemoryKube } from '#test/support/memory-kube.ts';
import { fenceWrites } from './fence-writes.ts';

const PLANS: KubeResource = {
  group: 'despatch.dev',
  version: 'v1alpha1',
  plural: 'plans',
  kind: 'Plan',
  namespaced: false,
};
const FREE = { metadata: { name: 'free' } };
const call = { signal: new AbortController().signal, fieldManager: 'me' };

type Write = (client: KubeClient, object: KubeObject) => Promise<unknown>;

test.each<[string, Write]>([
  ['create', (client) => client.create(PLANS, { metadata: { name: 'new' } }, call)],
  ['replace', (client, object) => client.replace(PLANS, object, call)],
  ['apply', (client) => client.apply(PLANS, FREE.metadata, {}, call)],
  ['applyStatus', (client) => client.applyStatus(PLANS, FREE.metadata, {}, call)],
  ['patchFinalizers', (client, object) => client.patchFinalizers(PLANS, object, { add: 'x' }, call)],
])('%s reaches the server only while the process leads', async (operation, write) => {
  const kube = createMemoryKube();
  const object = kube.put(PLANS, FREE);
  let isLeading = false;
  const client = fenceWrites(kube.client, () => isLeading);
  await expect(write(client, object)).rejects.toMatchObject({ reason: 'NotLeading' });
  expect(kube.calls).toEqual([]);
  expect(await client.get(PLANS, FREE.metadata, call)).toBeDefined();
  isLeading = true;
  await write(client, object);
  expect(kube.calls).toEqual(['get plans', `${operation} plans`]);
});

test('every client call except get, list and watch is fenced', () => {
  const { client } = createMemoryKube();
  const fenced = fenceWrites(client, () => true);
  const passed = Object.keys(client).filter(
    (name) => fenced[name as keyof KubeClient] === client[name as keyof KubeClient],
  );
  expect(passed.toSorted((a, b) => a.localeCompare(b))).toEqual(['get', 'list', 'watch']);
});
