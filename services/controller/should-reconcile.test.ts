import { expect, test } from 'vitest';
import type { KubeMeta } from './kube/kube-object.ts';
import { shouldReconcile } from './should-reconcile.ts';

const META: KubeMeta = {
  name: 'acme',
  namespace: 'team',
  uid: 'u',
  resourceVersion: '1',
  generation: 1,
  annotations: { a: '1' },
  finalizers: ['f'],
};

test.each<[string, Partial<KubeMeta>, boolean]>([
  ['a new version with the same spec, such as a status', { resourceVersion: '2' }, false],
  ['labels', { labels: { team: 'x' } }, false],
  ['a new generation', { generation: 2 }, true],
  ['the wish to delete it', { deletionTimestamp: '2026-01-01T00:00:00Z' }, true],
  ['an annotation', { annotations: { a: '2' } }, true],
  ['a finalizer that is gone', { finalizers: [] }, true],
])('%s', (_what, change, expected) => {
  expect(shouldReconcile({ metadata: META }, { metadata: { ...META, ...change } })).toBe(expected);
});
