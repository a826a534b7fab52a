import { expect, test } from 'vitest';
import { decodeNotice, encodeNotice, isNoticeKind } from './notice.ts';

test('the payload of a notice is JSON with its fields as they are', () => {
  expect(encodeNotice({ tenantId: 't' })).toBe('{"tenantId":"t"}');
  expect(encodeNotice({ tenantId: 't', id: 'e', changed: 'due' })).toBe(
    '{"tenantId":"t","id":"e","changed":"due"}',
  );
});

test.each([
  ['{"tenantId":"t"}', { tenantId: 't', changed: 'secrets' }],
  ['{"tenantId":"t","id":"a","new":1}', { tenantId: 't', id: 'a', changed: 'secrets' }],
  ['{"tenantId":"t","id":"e","changed":"due"}', { tenantId: 't', id: 'e', changed: 'due' }],
  ['{"tenantId":"t","id":"e","changed":"new"}', { tenantId: 't', id: 'e', changed: 'secrets' }],
  ['{"tenantId":"t","id":7}', { tenantId: 't', changed: 'secrets' }],
])('%s is a notice', (payload, notice) => {
  expect(decodeNotice(payload)).toEqual(notice);
});

test.each(['', 'null', '7', '"x"', '[]', '{}', '{"id":"a"}', '{"tenantId":7}', '{"tenantId":'])(
  '%j is no notice',
  (payload) => {
    expect(decodeNotice(payload)).toBeNull();
  },
);

test('kinds of later releases are unknown', () => {
  expect(['tenant', 'clock', 'endpoint', 'new', ''].filter(isNoticeKind)).toEqual([
    'tenant',
    'clock',
    'endpoint',
  ]);
});
