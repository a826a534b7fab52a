import { expect, test } from 'vitest';
import { LIMIT_BOUNDS } from '#core/domain/tenant/limit-bounds.ts';
import { canonicalJson } from '../http/routes/idempotency.ts';
import { fingerprintedBatch, SendBatch } from './batch-schema.ts';

test('a batch is parsed without reading its messages, and one with too many is refused', () => {
  let looks = 0;
  const sent = { channel: 'sms' };
  const message = new Proxy(sent, {
    get: (target, name) => {
      looks += 1;
      return Reflect.get(target, name);
    },
    ownKeys: (target) => {
      looks += 1;
      return Reflect.ownKeys(target);
    },
  });
  const messages = Array.from({ length: LIMIT_BOUNDS.batchMessagesMax.max + 1 }, () => message);
  expect(SendBatch.safeParse({ messages }).success).toBe(false);
  expect(looks).toBe(0);
  const few = SendBatch.parse({ messages: [message] });
  expect(looks).toBe(0);
  expect(few).toEqual({ mode: 'permissive', messages: [sent] });
});

test('the fingerprint of a batch ignores name spelling and null fields, but not values', () => {
  const sms = { channel: 'sms', to: '+15550000001', body: 'Hello', externalId: 'a' };
  const { externalId, ...rest } = sms;
  const spelt = { ...rest, external_id: externalId, from: null };
  const wrong = { channel: 'sms', to: 'nobody', externalId };
  const wronglySpelt = { channel: 'sms', to: 'nobody', external_id: externalId };
  const torn = { ...sms, external_id: 'b' };
  const of = (...messages: unknown[]) => canonicalJson(fingerprintedBatch(SendBatch.parse({ messages })));
  expect(JSON.parse(of(sms, wrong, torn, 7))).toEqual({
    mode: 'permissive',
    messages: [sms, wrong, torn, 7],
  });
  expect(of(spelt, wronglySpelt)).toBe(of(sms, wrong));
  expect(of(sms)).not.toBe(of({ ...sms, body: 'Bye' }));
});
