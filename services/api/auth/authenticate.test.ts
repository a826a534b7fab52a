import { expect, test } from 'vitest';
import type { UserId } from '#core/domain/storage/ids.ts';
import type { NoticeKind } from '#core/domain/tenant/notice.ts';
import type { Membership } from '#core/store/tenants/directory.ts';
import { createAuthentication, USER_LIMIT } from './authenticate.ts';
import type { ServiceKeys } from './service-keys.ts';

/** A directory with one user, a member of the tenant `own`. */
function stage() {
  const asked: string[] = [];
  const own = { tenant: { slug: 'own', id: 'tenant', limits: { adminRequestsPerMinute: 9 } }, role: 'owner' };
  const counts = new Map<string, number>();
  const dropped: unknown[] = [];
  const { authenticate, onNotice } = createAuthentication({
    directory: {
      signIn: async () => (asked.push('sign-in'), { id: 'user' as UserId, entries: [] }),
      membership: async (_user, slug) => {
        asked.push(slug);
        return slug === 'own' ? (own as unknown as Membership) : null;
      },
      memberships: async () => {
        asked.push('all');
        return [own as unknown as Membership];
      },
      takeRate: async (subject, limit) => {
        const calls = (counts.get(subject) ?? 0) + 1;
        counts.set(subject, calls);
        return { passed: calls <= limit ? 1 : 0, remaining: Math.max(0, limit - calls), retryAfter: 30 };
      },
    },
    audit: () => {},
    serviceKeys: { drop: (...of: unknown[]) => void dropped.push(of) } as unknown as ServiceKeys,
    verifyToken: async () => ({ issuer: 'i', subject: 's', email: null, emailVerified: false, name: null }),
    platformAdmins: new Set(),
    refusalBeforeWork: () => undefined,
    sendLimit: () => ({ name: 'requestsPerMinute', value: 1 }),
  });
  const call = async (tenantSlug: string) =>
    authenticate(
      { kind: 'bearer', role: 'viewer' },
      { serviceKey: undefined, authorization: 'Bearer t', tenantSlug, isWrite: false },
    );
  const forget = () => onNotice('tenant', { tenantId: 'tenant' });
  return { asked, counts, dropped, call, forget, onNotice };
}

const refused = { rate: { name: USER_LIMIT.name, passed: false } };

async function guessTooOften(call: (slug: string) => Promise<unknown>): Promise<void> {
  for (let nth = 1; nth <= USER_LIMIT.value; nth += 1) {
    await expect(call(`guess-${nth}`)).rejects.toMatchObject({ code: 'not_found' });
  }
  expect(await call('guess-100')).toMatchObject(refused);
}

test('a user who tries too many unknown tenant slugs is rate limited with one query for all the following', async () => {
  const { asked, counts, call } = stage();
  await guessTooOften(call);
  const before = asked.length;
  for (let nth = 200; nth < 300; nth += 1) expect(await call(`guess-${nth}`)).toMatchObject(refused);
  expect(asked.slice(before)).toEqual(['all']);
  expect(counts.get('user')).toBe(USER_LIMIT.value + 1);
});

test.each(['before', 'only after'])(
  'a tenant of the user, called %s too many unknown slugs, is not refused for them',
  async (when) => {
    const { call, forget } = stage();
    const admitted = { caller: { kind: 'member', tenant: { slug: 'own' } }, rate: { passed: true } };
    if (when === 'before') expect(await call('own')).toMatchObject(admitted);
    await guessTooOften(call);
    // The cached copy runs out after five seconds; a notice drops it at once.
    forget();
    expect(await call('own')).toMatchObject(admitted);
    expect(await call('guess-101')).toMatchObject(refused);
  },
);

test.each<[kind: NoticeKind, dropped: unknown[], asked: string[]]>([
  ['key', [['tenant', 'id']], []],
  ['account', [['tenant', undefined]], []],
  ['route', [['tenant', undefined]], []],
  ['tenant', [['tenant', undefined]], ['sign-in', 'own']],
  ['endpoint', [], []],
  ['webhook_key', [], []],
  ['clock', [], []],
])(
  'a change of kind %s drops the copies that it makes stale, and no others',
  async (kind, dropped, asked) => {
    const b = stage();
    await b.call('own');
    b.asked.length = 0;
    b.onNotice(kind, { tenantId: 'tenant', id: 'id' });
    await b.call('own');
    expect([b.dropped, b.asked]).toEqual([dropped, asked]);
  },
);
