import { expect, test } from 'vitest';
import { isSmsSender } from './sms-sender.ts';

test.each([
  '+15550000001',
  '123',
  '12345678',
  'Acme',
  'ACME 24',
  'A',
  '12345678901'.replace(/1$/, 'x'),
  'Ac-me_&+',
])('%j can be a sender', (sender) => expect(isSmsSender(sender)).toBe(true));

test.each([
  '',
  ' ',
  '12',
  '123456789',
  '+0123',
  '+1234567890123456',
  'TwelveLetter',
  'Acme!',
  'Äcme',
  'Acme\n',
  '+-_&',
])('%j cannot be a sender', (sender) => expect(isSmsSender(sender)).toBe(false));
