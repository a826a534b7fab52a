import { expect, test } from 'vitest';
import { PUSH_DATA_BYTES_MAX, pushDataFault, pushDataTexts } from './push-data.ts';

test('holds 4096 bytes of keys and values and not one more', () => {
  const full = { é: 'x'.repeat(PUSH_DATA_BYTES_MAX - 2) };
  expect(pushDataFault(full)).toBeUndefined();
  expect(pushDataFault({ ...full, a: '' })).toMatchObject({ rule: 'max' });
  expect(pushDataFault({ list: Array.from({ length: 2_000 }, () => 1) })).toBeUndefined();
  expect(pushDataFault({ list: Array.from({ length: 2_100 }, () => 1) })).toMatchObject({ rule: 'max' });
});

test.each(['from', 'gcm', 'message_type', 'aps', 'google.sent_time', 'gcm.notification.title'])(
  'has no key %s',
  (key) => expect(pushDataFault({ [key]: 'x' })).toMatchObject({ rule: 'reserved' }),
);

test.each(['From', 'googlemaps', 'fromage', 'apsis', 'gcmx'])('may have a key %s', (key) =>
  expect(pushDataFault({ [key]: 'x' })).toBeUndefined(),
);

test('travels as texts', () => {
  expect(pushDataTexts({ a: 'x', b: 1, c: { d: null } })).toEqual({ a: 'x', b: '1', c: '{"d":null}' });
});
