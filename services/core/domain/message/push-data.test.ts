import { expect, test } from 'vitest';
import { PUSH_DATA_BYTES_MAX, pushDataFault, pushDataTexts } from './push-data.ts';

test('push data may have 4096 bytes of keys and values and not one more', () => {
  const full = { é: 'x'.repeat(PUSH_DATA_BYTES_MAX - 2) };
  expect(pushDataFault(full)).toBeUndefined();
  expect(pushDataFault({ ...full, a: '' })).toMatchObject({ rule: 'max' });
  expect(pushDataFault({ list: Array.from({ length: 2_000 }, () => 1) })).toBeUndefined();
  expect(pushDataFault({ list: Array.from({ length: 2_100 }, () => 1) })).toMatchObject({ rule: 'max' });
});

test.each(['from', 'gcm', 'message_type', 'aps', 'google.sent_time', 'gcm.notification.title'])(
  'push data with the reserved key %s is refused',
  (key) => expect(pushDataFault({ own: 'x', [key]: 'x' })).toMatchObject({ rule: 'reserved' }),
);

test.each(['From', 'googlemaps', 'fromage', 'apsis', 'gcmx'])(
  'push data with the key %s is accepted',
  (key) => expect(pushDataFault({ [key]: 'x' })).toBeUndefined(),
);

test('push data values are converted to strings', () => {
  expect(pushDataTexts({ a: 'x', b: 1, c: { d: null } })).toEqual({ a: 'x', b: '1', c: '{"d":null}' });
});
