import { expect, test } from 'vitest';
import type { UserId } from '#core/domain/ids.ts';
import { createAuthentication, USER_LIMIT } from './authenticate.ts';
import type { ServiceKeys } from './service-keys.ts';

test('a user who tries too many unknown tenant slugs is rate limited without a query', async () => {
  const asked: string[] = [];
  let calls = 0;
  const { authenticate } = createAuthentication({
    directory: {
      signIn: async () => ({ id: 'user' as UserId, entries: [] }),
      membership: async (_user, slug) => {
        asked.push(slug);
        return null;
      },
      takeRate: async (_subject, limit) => {
        calls += 1;
        return { passed: calls <= limit ? 1 : 0, remaining: Math.max(0, limit - calls), retryAfter: 30 };
      },
    },
    audit: () => {},
    serviceKeys: {} as ServiceKeys,
    verifyToken: async () => ({ issuer: 'i', subject: 's', email: null, emailVerified: false, name: null }),
    platformAdmins: new Set(),
    refusalBeforeWork: () => undefined,
    sendLimit: () => ({ name: 'requestsPerMinute', value: 1 }),
  });
  const guess = async (nth: number) =>
    authenticate(
      { kind: 'bearer', role: 'viewer' },
      { serviceKey: undefined, authorization: 'Bearer t', tenantSlug: `guess-${nth}`, isWrite: false },
    );

  for (let nth = 1; nth <= USER_LIMIT.value; nth += 1) {
    await expect(guess(nth)).rejects.toMatchObject({ code: 'not_found' });
  }
  const refused = { rate: { name: USER_LIMIT.name, passed: false } };
  expect(await guess(100)).toMatchObject(refused);
  const before = asked.length;
  for (let nth = 200; nth < 300; nth += 1) expect(await guess(nth)).toMatchObject(refused);
  expect([asked.length, calls]).toEqual([before, USER_LIMIT.value + 1]);
});
