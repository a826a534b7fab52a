import { describe, expect, test } from 'vitest';
import { createWarnings, unknownField, WARNINGS_MAX } from './warning.ts';

const EMAIL = [
  'channel',
  'to',
  'from',
  'subject',
  'bodyHtml',
  'bodyText',
  'body',
  'sendAt',
  'ttlSeconds',
  'tags',
];
const messageOf = (name: string, known: readonly string[] = EMAIL) =>
  unknownField('', name, known).warning.message;

describe('the warning of an unknown field', () => {
  test.each([
    ['html', 'bodyHtml'],
    ['bodyHTML', 'bodyHtml'],
    ['Body-Html', 'bodyHtml'],
    ['bodyHmtl', 'bodyHtml'],
    ['text', 'bodyText'],
    ['ttlSecond', 'ttlSeconds'],
    ['ttl', 'ttlSeconds'],
    ['scheduledAt', 'sendAt'],
    ['scheduled_at', 'sendAt'],
    ['send-at', 'sendAt'],
    ['sentAt', 'sendAt'],
    ['tag', 'tags'],
    ['subjct', 'subject'],
    ['form', 'from'],
  ])('suggests a field for %s: %s', (name, meant) => {
    expect(unknownField('', name, EMAIL)).toEqual({
      warning: { field: name, message: `Unknown field, ignored: did you mean '${meant}'?` },
      isNear: true,
    });
  });

  test.each(['cc', 'bcc', 'CC'])('explains for %s that a message has one recipient', (name) => {
    expect(messageOf(name)).toMatch(/one recipient, 'to'/);
  });

  test.each(['colour', 'x', 'tp', 'constructor', '__proto__', 'toString', 'a'.repeat(10_000)])(
    'suggests nothing for a name without a similar field: %s',
    (name) => expect(messageOf(name)).toBe('Unknown field, ignored'),
  );

  test('suggests only fields of the same object', () => {
    expect(messageOf('html', ['channel', 'to', 'body'])).toBe('Unknown field, ignored');
    expect(messageOf('cc', ['name'])).toBe('Unknown field, ignored');
    expect(messageOf('text', ['channel', 'to', 'body'])).toMatch(/'body'/);
  });

  test('shows the name sanitized and cut to 64 characters', () => {
    const fieldOf = (name: string) => unknownField('attachments.0.', name, []).warning.field;
    expect(fieldOf('größe')).toBe('attachments.0.größe');
    expect(fieldOf('<b>\r\n\u202e\u0000 "x')).toBe('attachments.0.?b???????x');
    expect(fieldOf('n'.repeat(65))).toBe(`attachments.0.${'n'.repeat(64)}…`);
    expect(fieldOf('n'.repeat(64))).toBe(`attachments.0.${'n'.repeat(64)}`);
    expect(fieldOf('😀'.repeat(1_000)).length).toBeLessThanOrEqual(14 + 129);
  });
});

test('a request lists at most WARNINGS_MAX warnings and counts the rest', () => {
  const warnings = createWarnings();
  for (let i = 0; i < WARNINGS_MAX; i += 1) warnings.add({ field: `f${i}`, message: 'm' });
  expect(warnings.list()).toHaveLength(WARNINGS_MAX);
  warnings.add({ field: 'a', message: 'm' });
  warnings.add({ field: 'b', message: 'm' });
  expect(warnings.list()).toHaveLength(WARNINGS_MAX + 1);
  expect(warnings.list().at(-1)).toEqual({ field: 'request', message: '2 further warnings' });
});
