import { expect, test } from 'vitest';
import { decodeWake, encodeWake } from './wake.ts';

const wake = {
  id: '0b9f2c52-6c1b-4f65-9d9c-111111111111',
  purgeOn: '2026-12-28',
  tenantId: '0b9f2c52-6c1b-4f65-9d9c-222222222222',
};

test('a wake-up survives its way over the stream', () => {
  expect(decodeWake(encodeWake(wake), 'high')).toEqual({ ...wake, priority: 0 });
});

test.each([
  '',
  'x',
  `${encodeWake(wake)} more`,
  encodeWake({ ...wake, id: "' or 1=1" }),
  encodeWake({ ...wake, purgeOn: 'soon' }),
])('what is not a wake-up is dropped: %s', (payload) => expect(decodeWake(payload, 'normal')).toBeNull());
