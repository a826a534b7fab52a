import { expect, test } from 'vitest';
import type { StoredEvent } from '../webhooks/stored-event.ts';
import { maskedEvent } from './masked-event.ts';

const event = (parts: object) => ({ message: null, details: null, ...parts }) as unknown as StoredEvent;

test('the recipient of the message of an event is masked', () => {
  const message = { id: 'm', channel: 'email', to: 'ann@example.com' };
  expect(maskedEvent(event({ message }))).toEqual(event({ message: { ...message, to: 'a***@example.com' } }));
});

test('the address of a suppression entry is masked, and other details stay', () => {
  const details = { channel: 'sms', address: '+15551230042', reason: 'manual' };
  expect(maskedEvent(event({ details }))).toEqual(event({ details: { ...details, address: '+***42' } }));
});

test.each([{ details: { reason: 'gone' } }, { details: { address: null } }, {}])(
  'an event without a recipient, %j, stays as it is',
  (parts) => {
    expect(maskedEvent(event(parts))).toEqual(event(parts));
  },
);
