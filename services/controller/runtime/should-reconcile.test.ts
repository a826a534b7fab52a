import { expect, test } from 'vitest';
import type { KubeMeta } from '../kube/kube-object.ts';
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
  [
    'a new resource version without a new generation does not require a pass',
    { resourceVersion: '2' },
    false,
  ],
  ['a change of labels does not require a pass', { labels: { team: 'x' } }, false],
  ['a new generation requires a pass', { generation: 2 }, true],
  ['a deletion timestamp requires a pass', { deletionTimestamp: '2026-01-01T00:00:00Z' }, true],
  ['a changed annotation requires a pass', { annotations: { a: '2' } }, true],
  ['a removed finalizer requires a pass', { finalizers: [] }, true],
])('%s', (_what, change, expected) => {
  expect(shouldReconcile({ metadata: META }, { metadata: { ...META, ...change } })).toBe(expected);
});
