import { expect, test } from 'vitest';
import type { StoredEvent } from '#core/domain/webhooks/stored-event.ts';
import { eventBody } from './event-body.ts';

const EVENT: StoredEvent = {
  seq: 0,
  id: 'e3a2b1c0-9d8e-4f7a-b6c5-d4e3f2a1b0c9',
  type: 'message.queued',
  at: new Date(0),
  details: null,
  message: {
    sequence: 1,
    id: 'b7e23ec2-9f0a-4b1c-8d2e-3f4a5b6c7d8e',
    test: false,
    externalId: '"data":{"seq":7',
    channel: 'sms',
    to: '+15550000001',
    category: 'transactional',
    metadata: { seq: 7 },
    tags: null,
    attempt: null,
    accountId: null,
    provider: null,
    isFinal: false,
  },
};
const TENANT_EVENT: StoredEvent = {
  ...EVENT,
  type: 'tenant.suspended',
  details: { reason: 'manual' },
  message: null,
};

const read = (body: Buffer) => JSON.parse(body.toString()) as { data: Record<string, unknown> };

test.each([EVENT, TENANT_EVENT])(
  'endpoints receive equal bodies of an event except for its sequence number: $type',
  (event) => {
    const seqs = [7, 8, 1_042, 7];
    // Each endpoint has a copy of its own.
    const bodies = seqs.map((seq) => read(eventBody({ ...event, seq }, seq, false)));
    expect(bodies.map(({ data }) => data['seq'])).toEqual(seqs);
    const [first] = bodies;
    for (const { data, ...other } of bodies) {
      expect({ ...other, data: { ...data, seq: 7 } }).toEqual(first);
    }
  },
);

test('recipients are masked only for endpoints that ask for it', () => {
  const told = [false, true, false, true].map((isMasked, n) => read(eventBody(EVENT, n + 1, isMasked)).data);
  const [plain, masked] = told;
  expect(plain).toMatchObject({ seq: 1, to: '+15550000001' });
  expect(masked).toMatchObject({ seq: 2, to: expect.not.stringContaining('+15550000001') });
  expect(told[2]).toEqual({ ...plain, seq: 3 });
  expect(told[3]).toEqual({ ...masked, seq: 4 });
});

test('a stored event that does not match its type is rejected', () => {
  expect(() => eventBody({ ...TENANT_EVENT, details: null, type: 'provider.active' }, 1, false)).toThrow(
    'providerId',
  );
});
