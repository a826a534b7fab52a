import { expect, test } from 'vitest';
import { contentRefusal, contentWarnings } from './content-limits.ts';
import { PROVIDERS } from './registry.gen.ts';

const provider = { name: 'Carrier pigeon', bodyCharactersMax: 3 };

test.each([[{ body: 'abc' }], [{ body: '😀😀😀' }], [{ title: 'abcd' }], [{ body: undefined }], [null]])(
  '%j is within the limit',
  (content) => {
    expect(contentWarnings(provider, content)).toEqual([]);
    expect(contentRefusal(provider, content)).toBeUndefined();
  },
);

test('a body one character above the limit causes a warning and is rejected', () => {
  expect(contentWarnings(provider, { body: 'abcd' })).toEqual([
    { field: 'body', message: 'Carrier pigeon takes at most 3 characters and will refuse this' },
  ]);
  expect(contentRefusal(provider, { body: 'abcd' })).toEqual({
    kind: 'rejected_permanent',
    failure: {
      class: 'content_rejected',
      code: 'body_too_long',
      providerMessage: 'Carrier pigeon takes at most 3 characters',
    },
  });
});

test('a provider without a limit accepts any length', () => {
  expect(
    contentRefusal({ ...provider, bodyCharactersMax: null }, { body: 'x'.repeat(10_000) }),
  ).toBeUndefined();
});

test('every SMS provider declares its limit, except those without a documented one', () => {
  // MessageBird documents no limit, Telnyx's limit depends on profile and route, and a tenant's own gateway may have any
  // limit or none.
  const others = ['messagebird', 'simulator-sms', 'telnyx', 'webhook-sms'];
  const silent = [...PROVIDERS.values()].filter(
    ({ channel, bodyCharactersMax }) => channel === 'sms' && bodyCharactersMax === null,
  );
  expect(silent.map(({ id }) => id)).toEqual(others);
  expect(PROVIDERS.get('twilio')?.bodyCharactersMax).toBe(1_600);
});
