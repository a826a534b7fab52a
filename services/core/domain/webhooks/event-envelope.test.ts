import { describe, expect, test } from 'vitest';
import { toEnvelope } from './event-envelope.ts';
import { EVENT_SCHEMAS } from './event-schemas.ts';
import type { StoredEvent } from './stored-event.ts';
import { FEED_EVENT_TYPES, type FeedEventType } from './feed-event.ts';

const ID = 'e3a2b1c0-9d8e-4f7a-b6c5-d4e3f2a1b0c9';
const MESSAGE: NonNullable<StoredEvent['message']> = {
  sequence: 2,
  id: 'b7e23ec2-9f0a-4b1c-8d2e-3f4a5b6c7d8e',
  test: false,
  externalId: null,
  channel: 'sms',
  to: '+15550000001',
  category: 'transactional',
  metadata: null,
  tags: null,
  attempt: 1,
  accountId: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10',
  provider: 'twilio',
  isFinal: false,
};
const REROUTED = { rerouted: { accountId: MESSAGE.accountId, version: 3, skipped: [] } };
const ACCOUNT = {
  providerId: MESSAGE.accountId,
  provider: 'twilio',
  channel: 'sms',
  label: 'main',
  status: 'active',
};

function stored(type: FeedEventType, over: Partial<StoredEvent> = {}): StoredEvent {
  const details = {
    message: {
      engagement: 'read',
      ...REROUTED,
      ...(type === 'message.suppressed' ? { reason: 'manual' } : {}),
    },
    provider: ACCOUNT,
    suppression: {
      suppressionId: ID,
      channel: 'sms',
      hashed: true,
      reason: 'manual',
      scope: 'all',
      source: 'api',
      ...(type === 'suppression.imported' ? { entries: 3 } : {}),
    },
    endpoint: { endpointId: MESSAGE.id, url: 'https://hooks.test/', status: 'failing' },
    tenant: {
      reason: type.includes('brake') ? 'complaint_rate' : 'manual',
      channel: 'sms',
      level: 'held',
      rate: 0.2,
      bound: 0.1,
    },
    limit: { limit: 'messagesPerDay', value: 100, used: 80 },
  }[type.split('.')[0] as 'message' | 'provider' | 'endpoint' | 'suppression' | 'tenant' | 'limit'];
  const message = type.startsWith('message.') ? MESSAGE : null;
  return { seq: 7, id: ID, type, at: new Date(0), details, message, ...over };
}

test.each(FEED_EVENT_TYPES)('the envelope of %s is built, and the example matches its schema', (type) => {
  expect(toEnvelope(stored(type))).toMatchObject({
    id: ID,
    type,
    timestamp: '1970-01-01T00:00:00.000Z',
    data: { seq: 7 },
  });
  const [example] = (EVENT_SCHEMAS[type].meta()?.['examples'] ?? []) as unknown[];
  expect(example).toBeDefined();
  expect(EVENT_SCHEMAS[type].parse(example)).toEqual(example);
});

describe('an event of a message', () => {
  test('names its message, recipient and attempt', () => {
    const { data } = toEnvelope(stored('message.sent', { details: { attempt: 1 } }));
    expect(data).toEqual({
      seq: 7,
      sequence: 2,
      test: false,
      messageId: MESSAGE.id,
      externalId: null,
      channel: 'sms',
      to: '+15550000001',
      category: 'transactional',
      metadata: null,
      tags: [],
      attempt: 1,
      providerId: MESSAGE.accountId,
      provider: 'twilio',
      providerStatus: null,
    });
  });

  test('has a failure with the code of Despatch and of the provider', () => {
    const failure = {
      class: 'invalid_recipient',
      code: 'unknown_recipient',
      providerCode: '30003',
      retryable: false,
    };
    expect(toEnvelope(stored('message.failed', { details: { failure } })).data).toMatchObject({
      failure: {
        class: 'invalid_recipient',
        code: 'unknown_recipient',
        providerCode: '30003',
        providerMessage: null,
      },
    });
    expect(toEnvelope(stored('message.canceled', { details: null })).data).toMatchObject({ failure: null });
  });

  test.each(FEED_EVENT_TYPES.filter((type) => type.startsWith('message.')))(
    '%s contains nothing beyond its schema, whatever its row holds',
    (type) => {
      const details = { ...stored(type).details, content: 'CANARY', body: 'CANARY', secretConfig: 'CANARY' };
      expect(JSON.stringify(toEnvelope(stored(type, { details })))).not.toContain('CANARY');
    },
  );

  test('ignores sequence numbers and recipients in the details of its row', () => {
    const { data } = toEnvelope(stored('message.sent', { details: { seq: 1, sequence: 99, to: 'other' } }));
    expect(data).toMatchObject({ seq: 7, sequence: 2, to: '+15550000001' });
  });
});
