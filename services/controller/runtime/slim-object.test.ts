import { expect, test } from 'vitest';
import { slimObject } from './slim-object.ts';

const METADATA = {
  name: 'x',
  namespace: 'a',
  uid: 'u',
  resourceVersion: '7',
  generation: 2,
  creationTimestamp: '2026-01-01T00:00:00Z',
  deletionTimestamp: '2026-02-01T00:00:00Z',
  finalizers: ['one', 'two'],
};

test('spec, status and the metadata that the controller reads are kept', () => {
  const object = {
    apiVersion: 'v1',
    kind: 'Thing',
    metadata: METADATA,
    spec: { a: 1 },
    status: { b: 2 },
  };
  expect(slimObject(object, [])).toStrictEqual(object);
});

test('labels, owners, managed fields and other annotations are dropped', () => {
  const rest = { labels: { l: 'v' }, ownerReferences: [{}], managedFields: [{}], generateName: 'x-' };
  const annotations = { 'despatch.dev/paused': 'true', note: 'long' };
  const object = { metadata: { ...METADATA, ...rest, annotations } };
  expect(slimObject(object, ['despatch.dev/paused', 'absent']).metadata).toStrictEqual({
    ...METADATA,
    annotations: { 'despatch.dev/paused': 'true' },
  });
  expect(slimObject(object, []).metadata).toStrictEqual(METADATA);
});

test('an annotation of more than 64 characters is dropped', () => {
  const of = (value: string) =>
    slimObject({ metadata: { ...METADATA, annotations: { a: value } } }, ['a']).metadata.annotations;
  expect([of('x'.repeat(64)), of('x'.repeat(65))]).toEqual([{ a: 'x'.repeat(64) }, undefined]);
});
