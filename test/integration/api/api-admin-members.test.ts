import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Role } from '#core/domain/tenant/role.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import { AUDIENCE, type Reply } from '#test/support/api.ts';
import { lockWaits } from '#test/support/lock-waits.ts';

const PATH = '/v1/admin/members';

let api: AdminApi;
let tenant: TestTenant;

beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant({ membersMax: 1_000 });
});
afterAll(() => api[Symbol.asyncDispose]());

const as = (role: Role, method: string, url: string, body?: unknown): Promise<Reply> =>
  api.callAs(role, tenant, method, url, body);
const auditOf = async (target: string): Promise<string[]> => {
  const rows = await api.admin<
    { action: string }[]
  >`select action from audit_log where target = ${target} order by seq`;
  return rows.map(({ action }) => action);
};

describe('adding a member', () => {
  test('by subject works before the first sign-in', async () => {
    const subject = randomUUID();
    const { status, body } = await as('admin', 'PUT', PATH, { subject, role: 'developer' });
    expect(status).toBe(200);
    expect(body).toMatchObject({ subject, email: null, role: 'developer' });
    const person = await api.person({ subject });
    const reply = await api.call('GET', '/v1/admin/providers', { as: person, slug: tenant.slug });
    expect([reply.status, person.userId]).toEqual([200, body.userId]);
    expect(await auditOf(body.userId)).toEqual(['member.added']);
  });

  test('by subject does not reveal the e-mail address that another tenant can see', async () => {
    const elsewhere = await api.tenant();
    const { subject, email, userId } = elsewhere.members.developer;
    await api.call('GET', '/v1/admin/me', { as: elsewhere.members.developer });
    const added = await as('admin', 'PUT', PATH, { subject, role: 'viewer' });
    const shown = await as('admin', 'GET', `${PATH}/${userId}`);
    const listed = await as('admin', 'GET', `${PATH}?limit=200`);
    for (const { status, text } of [added, shown, listed]) {
      expect([status, text.includes(subject), text.includes(email)]).toEqual([200, true, false]);
    }
    // Guessing the e-mail address does not find the member: the api creates an invitation, as for any address.
    const guessed = await as('admin', 'PUT', PATH, { email, role: 'viewer' });
    expect(guessed.body).toMatchObject({ subject: null, email });
    expect(guessed.body.userId).not.toBe(userId);
  });

  test('by subject and then by e-mail yields one member, with that address, after sign-in', async () => {
    const person = await api.person();
    const { subject, email, userId } = person;
    await as('admin', 'PUT', PATH, { subject, role: 'developer' });
    await as('admin', 'PUT', PATH, { email, role: 'viewer' });
    const signIn = await api.call('GET', '/v1/admin/providers', { as: person, slug: tenant.slug });
    expect(signIn.status).toBe(200);
    expect((await as('admin', 'GET', `${PATH}/${userId}`)).body).toMatchObject({ email, role: 'developer' });
    const { body } = await as('admin', 'GET', `${PATH}?limit=200`);
    expect(body.items.filter((item: { email: string | null }) => item.email === email)).toHaveLength(1);
  });

  test.each([
    ['viewer', 'owner', 'owner'],
    ['admin', 'developer', 'admin'],
  ] as const)('by subject as %s and by e-mail as %s gives the role %s', async (bySubject, byEmail, role) => {
    const person = await api.person();
    const { subject, email, userId } = person;
    await as('owner', 'PUT', PATH, { subject, role: bySubject });
    await as('owner', 'PUT', PATH, { email, role: byEmail });
    await api.call('GET', '/v1/admin/me', { as: person });
    expect((await as('owner', 'GET', `${PATH}/${userId}`)).body).toMatchObject({ email, role });
  });

  test('by e-mail takes effect at the first sign-in with that verified address', async () => {
    const email = `${randomUUID()}@Example.org`;
    const invited = await as('admin', 'PUT', PATH, { email, role: 'viewer' });
    expect(invited.body).toMatchObject({ subject: null, email, role: 'viewer' });
    const see = async (emailVerified: boolean): Promise<number> => {
      const person = await api.person({ email: email.toLowerCase(), emailVerified });
      return (await api.call('GET', '/v1/admin/providers', { as: person, slug: tenant.slug })).status;
    };
    expect([await see(false), await see(true)]).toEqual([404, 200]);
    const { body } = await as('admin', 'GET', `${PATH}?limit=200`);
    const like = body.items.filter(
      (item: { email: string | null }) => item.email?.toLowerCase() === email.toLowerCase(),
    );
    expect(like).toMatchObject([{ role: 'viewer', subject: expect.any(String) }]);
  });

  test('by e-mail shows a tenant its own spelling, and one sign-in accepts the invitations of all', async () => {
    const [one, other] = [await api.tenant(), await api.tenant()];
    const name = randomUUID();
    const spellings = [`Ann.${name}@example.org`, `ann.${name}@example.org`] as const;
    const invite = async (to: TestTenant, email: string): Promise<string> =>
      (await api.callAs('owner', to, 'PUT', PATH, { email, role: 'viewer' })).body.email;
    expect([await invite(one, spellings[0]), await invite(other, spellings[1])]).toEqual(spellings);
    const person = await api.person({ email: spellings[1] });
    const { body } = await api.call('GET', '/v1/admin/me', { as: person });
    const slugs = body.tenants.map(({ slug }: { slug: string }) => slug);
    expect(new Set(slugs)).toEqual(new Set([one.slug, other.slug]));
    expect(await api.admin`select id from users where lower(email) = ${spellings[1]}`).toHaveLength(1);
  });

  test.each([
    ['ann@exämple.com', 'ann@xn--exmple-cua.com'],
    ['ann@xn--exmple-cua.com', 'ann@exämple.com'],
    ['ann@EXÄMPLE.com', 'ann@exämple.com'],
    ['zoë@example.org'.normalize('NFD'), 'zoë@example.org'.normalize('NFC')],
    ['zoë@example.org'.normalize('NFC'), 'zoë@example.org'.normalize('NFD')],
    ['b\u0130ll@example.org', 'bi\u0307ll@example.org'],
  ])('by e-mail as %s is accepted by the other spelling %s', async (invitedAs, issuedAs) => {
    const own = await api.tenant();
    const [invited, issued] = [invitedAs, issuedAs].map((address) => `${own.slug}-${address}`) as [
      string,
      string,
    ];
    await api.callAs('owner', own, 'PUT', PATH, { email: invited, role: 'viewer' });
    const again = await api.callAs('owner', own, 'PUT', PATH, { email: issued, role: 'developer' });
    expect(again.status).toBe(200);
    const person = await api.person({ email: issued });
    const signIn = await api.call('GET', '/v1/admin/providers', { as: person, slug: own.slug });
    expect(signIn.status).toBe(200);
    for (const [email, role] of [
      [invited, 'viewer'],
      [issued, 'admin'],
    ] as const) {
      const { body } = await api.callAs('owner', own, 'PUT', PATH, { email, role });
      expect(body).toMatchObject({ userId: person.userId, role });
    }
  });

  test.each([
    // A URL's host would end before these signs, and decode the dot.
    ['ann@acme.example', 'ann@acme.example#é.example'],
    ['ann@acme.example', 'ann@acme.example/é.example'],
    ['ann@acme.example', 'ann@acme.example?é.example'],
    ['ann@acme.é', 'ann@acme%2Eé'],
    // Another letter, which becomes an ASCII one in lower case.
    ['bill@acme.example', 'b\u0130ll@acme.example'],
    // Not what the issuer verified.
    ['ann@acme.example', 'ann@acme.example\0'],
    ['ann@acme.example', '\0ann@acme.example'],
  ])('by e-mail as %j grants nothing to the owner of %j', async (invited, verified) => {
    const own = await api.tenant();
    const [email, other] = [`${own.slug}-${invited}`, `${own.slug}-${verified}`];
    const { body } = await api.callAs('owner', own, 'PUT', PATH, { email, role: 'admin' });
    const see = async (address: string): Promise<number> => {
      const identity = { sub: randomUUID(), email: address, emailVerified: true };
      const token = await api.issuer.mint({ ...identity, audience: AUDIENCE });
      const headers = { authorization: `Bearer ${token}` };
      return (await api.call('GET', PATH, { slug: own.slug, headers })).status;
    };
    expect(await see(other)).toBe(404);
    const open = await api.callAs('owner', own, 'GET', `${PATH}/${body.userId}`);
    expect(open.body).toMatchObject({ subject: null, role: 'admin' });
    expect(await see(email)).toBe(200);
  });

  test('by e-mail grants nothing to a member whose address is unverified', async () => {
    const [subject, email] = [randomUUID(), `${randomUUID()}@example.org`];
    const { body: pretender } = await as('admin', 'PUT', PATH, { subject, role: 'viewer' });
    const person = await api.person({ subject, email, emailVerified: false });
    const read = await api.call('GET', '/v1/admin/providers', { as: person, slug: tenant.slug });
    expect(read.status).toBe(200);
    const invited = await as('owner', 'PUT', PATH, { email, role: 'owner' });
    expect(invited.body).toMatchObject({ subject: null, email, role: 'owner' });
    const after = await as('admin', 'GET', `${PATH}/${pretender.userId}`);
    expect(after.body).toMatchObject({ subject, email: null, role: 'viewer' });
  });

  test('a repeated PUT changes the role and creates no second member', async () => {
    const email = `${randomUUID()}@example.org`;
    const first = await as('admin', 'PUT', PATH, { email, role: 'viewer' });
    const again = await as('admin', 'PUT', PATH, { email: email.toUpperCase(), role: 'developer' });
    expect(again.body).toEqual({ ...first.body, role: 'developer' });
    const { subject } = tenant.members.viewer;
    const known = await as('admin', 'PUT', PATH, { subject, role: 'viewer' });
    expect([known.status, known.body.userId]).toEqual([200, tenant.members.viewer.userId]);
    expect(await auditOf(first.body.userId)).toEqual(['member.added', 'member.role_changed']);
  });

  test('a PUT that changes nothing makes no process load the tenant again', async () => {
    const subject = randomUUID();
    const put = async (role: Role): Promise<number> => {
      const before = api.notices.length;
      expect((await as('admin', 'PUT', PATH, { subject, role })).status).toBe(200);
      return api.notices.length - before;
    };
    expect([
      await put('viewer'),
      await put('viewer'),
      await put('developer'),
      await put('developer'),
    ]).toEqual([1, 0, 1, 0]);
  });

  test('a token that names no address or name leaves the member as they were', async () => {
    const own = await api.tenant();
    const email = `${randomUUID()}@example.org`;
    await api.callAs('owner', own, 'PUT', PATH, { email, role: 'developer' });
    const person = await api.person({ email });
    await api.call('GET', '/v1/admin/me', { as: person });
    const bare = await api.issuer.mint({ sub: person.subject, audience: AUDIENCE });
    expect((await api.call('GET', '/v1/admin/me', { as: { ...person, token: bare } })).status).toBe(200);
    const shown = await api.callAs('owner', own, 'GET', `${PATH}/${person.userId}`);
    expect(shown.body).toMatchObject({ email, role: 'developer' });
    expect(await api.admin`select name from users where id = ${person.userId}`).toEqual([
      { name: 'Someone' },
    ]);
    const changed = await api.callAs('owner', own, 'PUT', PATH, { email, role: 'viewer' });
    expect(changed.body).toMatchObject({ userId: person.userId, email, role: 'viewer' });
    expect(await api.admin`select id from users where email = ${email}`).toHaveLength(1);
  });

  test('a token that names an unverified address removes the stored one', async () => {
    const own = await api.tenant();
    const email = `${randomUUID()}@example.org`;
    await api.callAs('owner', own, 'PUT', PATH, { email, role: 'developer' });
    const person = await api.person({ email });
    await api.call('GET', '/v1/admin/me', { as: person });
    const { subject } = person;
    const token = await api.issuer.mint({ sub: subject, audience: AUDIENCE, email, emailVerified: false });
    await api.call('GET', '/v1/admin/me', { as: { ...person, token } });
    const shown = await api.callAs('owner', own, 'GET', `${PATH}/${person.userId}`);
    expect(shown.body).toMatchObject({ subject, email: null });
  });

  test.each([
    [{ role: 'viewer' }],
    [{ email: 'a@example.org', subject: 'x', role: 'viewer' }],
    [{ email: 'nonsense', role: 'viewer' }],
    [{ subject: '', role: 'viewer' }],
    [{ subject: 'x', role: 'king' }],
    [{ subject: 'x' }],
  ])('refuses %j with 400', async (body) => {
    expect((await as('admin', 'PUT', PATH, body)).status).toBe(400);
  });

  test('stops exactly at the plan limit, which counts invitations', async () => {
    const own = await api.tenant({ membersMax: 6 });
    const replies = await Promise.all(
      Array.from({ length: 5 }, () =>
        api.callAs('admin', own, 'PUT', PATH, { email: `${randomUUID()}@example.org`, role: 'viewer' }),
      ),
    );
    expect(replies.map(({ status }) => status).toSorted((x, y) => x - y)).toEqual([200, 200, 403, 403, 403]);
    expect(replies.find(({ status }) => status === 403)?.body.code).toBe('plan_limit_reached');
  });

  test('concurrent PUTs of one new address create one member', async () => {
    const email = `${randomUUID()}@example.org`;
    const replies = await Promise.all(
      Array.from({ length: 5 }, () => as('admin', 'PUT', PATH, { email, role: 'viewer' })),
    );
    expect(new Set(replies.map(({ body }) => body.userId)).size).toBe(1);
  });
});

describe('changing and removing members', () => {
  test('a new role takes effect immediately', async () => {
    const own = await api.tenant();
    const { viewer } = own.members;
    const create = () => api.callAs('viewer', own, 'POST', '/v1/admin/api-keys', { name: 'Key' });
    expect((await create()).status).toBe(403);
    const { status, body } = await api.callAs('admin', own, 'PUT', `${PATH}/${viewer.userId}`, {
      role: 'admin',
    });
    expect([status, body.role]).toEqual([200, 'admin']);
    expect((await create()).status).toBe(201);
    expect(await auditOf(viewer.userId)).toEqual(['member.role_changed']);
  });

  test('a removed member loses access immediately', async () => {
    const own = await api.tenant();
    const { developer } = own.members;
    const read = () => api.callAs('developer', own, 'GET', '/v1/admin/providers');
    expect((await read()).status).toBe(200);
    const removed = await api.callAs('admin', own, 'DELETE', `${PATH}/${developer.userId}`);
    expect([removed.status, removed.text]).toEqual([204, '']);
    expect((await read()).status).toBe(404);
    expect((await api.callAs('admin', own, 'DELETE', `${PATH}/${developer.userId}`)).status).toBe(404);
    expect(await auditOf(developer.userId)).toEqual(['member.removed']);
  });

  test('removing an invitation deletes a user who never signed in and is in no other tenant', async () => {
    const [own, other] = [await api.tenant(), await api.tenant()];
    const [alone, shared] = [`${randomUUID()}@example.org`, `${randomUUID()}@example.org`];
    const ids = await Promise.all(
      [alone, shared].map(async (email) => {
        const { body } = await api.callAs('owner', own, 'PUT', PATH, { email, role: 'viewer' });
        return body.userId as string;
      }),
    );
    await api.callAs('owner', other, 'PUT', PATH, { email: shared, role: 'viewer' });
    for (const id of [...ids, own.members.viewer.userId]) {
      expect((await api.callAs('owner', own, 'DELETE', `${PATH}/${id}`)).status).toBe(204);
    }
    const kept = await api.admin<{ id: string }[]>`select id from users
      where id = any (${[...ids, own.members.viewer.userId]}) order by has_signed_in`;
    expect(kept.map(({ id }) => id)).toEqual([ids[1], own.members.viewer.userId]);
  });

  test('only owners grant and revoke the owner role', async () => {
    const own = await api.tenant();
    const { owner, viewer } = own.members;
    const refused = [
      await api.callAs('admin', own, 'PUT', `${PATH}/${viewer.userId}`, { role: 'owner' }),
      await api.callAs('admin', own, 'PUT', PATH, { email: 'new@example.org', role: 'owner' }),
      await api.callAs('admin', own, 'PUT', `${PATH}/${owner.userId}`, { role: 'viewer' }),
      await api.callAs('admin', own, 'DELETE', `${PATH}/${owner.userId}`),
    ];
    expect(refused.map(({ status, body }) => [status, body.message])).toEqual(
      Array.from({ length: 4 }, () => [403, "Role 'owner' is required"]),
    );
    expect(
      (await api.callAs('owner', own, 'PUT', `${PATH}/${viewer.userId}`, { role: 'owner' })).status,
    ).toBe(200);
  });

  test('the last owner cannot leave; an open invitation does not count as an owner', async () => {
    const own = await api.tenant();
    const { owner } = own.members;
    await api.callAs('owner', own, 'PUT', PATH, { email: `${randomUUID()}@example.org`, role: 'owner' });
    const refused = [
      await api.callAs('owner', own, 'DELETE', `${PATH}/${owner.userId}`),
      await api.callAs('owner', own, 'PUT', `${PATH}/${owner.userId}`, { role: 'admin' }),
      await api.callAs('owner', own, 'PUT', PATH, { subject: owner.subject, role: 'admin' }),
    ];
    expect(refused.map(({ status, body }) => [status, body.code])).toEqual(
      Array.from({ length: 3 }, () => [409, 'last_owner']),
    );
    const message =
      'The last owner cannot leave or get another role: first make another signed-in member an owner';
    expect(new Set(refused.map(({ body }) => body.message))).toEqual(new Set([message]));
  });

  test('an owner added by subject does not count as an owner before the first sign-in', async () => {
    const own = await api.tenant();
    const { owner } = own.members;
    const named = await api.callAs('owner', own, 'PUT', PATH, {
      subject: `sub-${randomUUID()}`,
      role: 'owner',
    });
    const refused = [
      await api.callAs('owner', own, 'PUT', `${PATH}/${owner.userId}`, { role: 'admin' }),
      await api.callAs('owner', own, 'DELETE', `${PATH}/${owner.userId}`),
    ];
    expect(refused.map(({ status, body }) => [status, body.code])).toEqual([
      [409, 'last_owner'],
      [409, 'last_owner'],
    ]);
    expect(named.body).not.toHaveProperty('hasSignedIn');
    expect((await api.callAs('owner', own, 'DELETE', `${PATH}/${named.body.userId}`)).status).toBe(204);
  });

  test.each([
    ['ünï@example.com', 'ünï@example.com'],
    ['a@exämple.com', 'a@xn--exmple-cua.com'],
    ['"a b"@example.com', '"a b"@example.com'],
  ])('the e-mail address %s can be invited', async (email, shown) => {
    const own = await api.tenant();
    const { status, body } = await api.callAs('owner', own, 'PUT', PATH, { email, role: 'viewer' });
    expect([status, body.email]).toEqual([200, shown]);
  });

  test('if the last two owners leave concurrently, one is refused', async () => {
    const own = await api.tenant();
    const { owner, admin } = own.members;
    await api.callAs('owner', own, 'PUT', `${PATH}/${admin.userId}`, { role: 'owner' });
    const replies = await Promise.all([
      api.callAs('owner', own, 'DELETE', `${PATH}/${owner.userId}`),
      api.callAs('admin', own, 'DELETE', `${PATH}/${admin.userId}`),
    ]);
    expect(replies.map(({ status }) => status).toSorted((x, y) => x - y)).toEqual([204, 409]);
  });
});

describe('a first sign-in concurrent with a change of its invitation', () => {
  /** Makes the change in a transaction that stays open until the sign-in waits for it, and returns the sign-in's answer. */
  async function signInDuring(
    email: string,
    change: (tx: TransactionSql) => Promise<unknown>,
  ): Promise<Reply> {
    const person = await api.person({ email });
    const begun = await api.admin.begin(async (tx) => {
      await change(tx);
      const signIn = api.call('GET', '/v1/admin/me', { as: person });
      await untilLocked('sign_user_in');
      return { signIn };
    });
    return begun.signIn;
  }
  /** Waits until a call of the function waits for a lock. */
  const untilLocked = async (name: string): Promise<void> => {
    await expect.poll(() => lockWaits(api.admin, name)).toHaveLength(1);
  };
  const invited = async (to: TestTenant, email: string): Promise<string> =>
    (await api.callAs('owner', to, 'PUT', PATH, { email, role: 'viewer' })).body.userId;
  const rolesIn = (reply: Reply): Record<string, string> =>
    Object.fromEntries(
      reply.body.tenants.map(({ slug, role }: { slug: string; role: string }) => [slug, role]),
    );

  test('yields no membership if the invitation is withdrawn', async () => {
    const [own, email] = [await api.tenant(), `${randomUUID()}@example.org`];
    const userId = await invited(own, email);
    const reply = await signInDuring(
      email,
      (tx) => tx`delete from members where tenant_id = ${own.id} and user_id = ${userId}`,
    );
    expect([reply.status, rolesIn(reply)]).toEqual([200, {}]);
  });

  test('yields the new role if the role is changed', async () => {
    const [own, email] = [await api.tenant(), `${randomUUID()}@example.org`];
    const userId = await invited(own, email);
    const reply = await signInDuring(
      email,
      (tx) => tx`update members set role = 'developer' where tenant_id = ${own.id} and user_id = ${userId}`,
    );
    expect([reply.status, rolesIn(reply)]).toEqual([200, { [own.slug]: 'developer' }]);
  });

  test('yields both memberships if another tenant invites the user too', async () => {
    const [own, other, email] = [await api.tenant(), await api.tenant(), `${randomUUID()}@example.org`];
    await invited(own, email);
    const reply = await signInDuring(
      email,
      (tx) => tx`insert into members (tenant_id, user_id, role, email_known)
        select ${other.id}, invite_user(${api.issuer.issuer}, null, ${email}), 'admin', true`,
    );
    expect([reply.status, rolesIn(reply)]).toEqual([200, { [own.slug]: 'viewer', [other.slug]: 'admin' }]);
  });

  test('keeps an invitation that waited for the sign-in open until the next one', async () => {
    const [own, other, email] = [await api.tenant(), await api.tenant(), `${randomUUID()}@example.org`];
    const userId = await invited(own, email);
    const inviting = await api.admin.begin(async (tx) => {
      const { issuer } = api.issuer;
      await tx`select sign_user_in(${issuer}, ${randomUUID()}, ${email}, true, null)`;
      const second = invited(other, email);
      await untilLocked('invite_user');
      return { second };
    });
    const second = await inviting.second;
    expect(second).not.toBe(userId);
    const person = await api.person({ email });
    expect(rolesIn(await api.call('GET', '/v1/admin/me', { as: person }))).toEqual({
      [other.slug]: 'viewer',
    });
  });
});

describe('reading members', () => {
  test('pages newest first, without gaps or repetitions', async () => {
    const own = await api.tenant();
    const pages: string[][] = [];
    let cursor = '';
    do {
      const { body } = await api.callAs('admin', own, 'GET', `${PATH}?limit=3${cursor}`);
      pages.push(body.items.map(({ userId }: { userId: string }) => userId));
      cursor = body.nextCursor === null ? '' : `&cursor=${body.nextCursor}`;
    } while (cursor !== '');
    expect(pages.map(({ length }) => length)).toEqual([3, 1]);
    const times = await api.admin<{ user_id: string }[]>`
      select user_id from members where tenant_id = ${own.id} order by created_at desc, user_id desc`;
    expect(pages.flat()).toEqual(times.map((row) => row.user_id));
  });

  test('returns one member, and 404 for a user who is not a member', async () => {
    const { userId, subject, email } = tenant.members.viewer;
    const shown = await as('admin', 'GET', `${PATH}/${userId}`);
    expect(shown.body).toMatchObject({ userId, subject, email, role: 'viewer' });
    const stranger = await api.person();
    expect((await as('admin', 'GET', `${PATH}/${stranger.userId}`)).status).toBe(404);
    expect((await as('admin', 'GET', `${PATH}/nobody`)).status).toBe(404);
  });
});
