import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Role } from '#core/domain/tenant/role.ts';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';

let api: TestApi;
let tenant: ApiTenant;
beforeAll(async () => {
  api = await startTestApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

const MARK = `mark ${randomUUID()}`;

async function member(role: Role, of = tenant) {
  return { ...(await api.member(of, role)), slug: of.slug };
}

function erase(id: string, who: { readonly token: string; readonly slug: string }) {
  return request(api.first, 'DELETE', `/v1/admin/messages/${id}/content`, {
    headers: { authorization: `Bearer ${who.token}`, 'x-tenant-slug': who.slug },
  });
}

/** Creates a canceled message, so that no worker sends it. */
async function ended(body: object = { ...LEAST.sms, body: MARK }): Promise<string> {
  const { body: accepted } = await send(api.first, tenant.key, body);
  const headers = { 'x-service-key': tenant.key.text };
  await request(api.first, 'POST', `/v1/messages/${accepted.id}/cancel`, { headers });
  return accepted.id;
}

async function contentsOf(id: string) {
  const [row] = await api.admin`
    select m.content, (select count(*)::int from message_contents c where c.message_seq = m.seq) as apart
    from messages m where m.id = ${id}`;
  return row;
}

test('erasing deletes inline and separately stored content, keeps the record, and is audited once', async () => {
  const admin = await member('admin');
  const html = `<p>${MARK}</p>${'x'.repeat(200_000)}`;
  for (const body of [
    { ...LEAST.sms, body: MARK, metadata: { order: 7 }, tags: ['kept'] },
    { ...LEAST.email, bodyHtml: html, metadata: { order: 7 }, tags: ['kept'] },
  ]) {
    const id = await ended(body);
    expect(await contentsOf(id)).not.toEqual({ content: null, apart: 0 });
    const before = await get(api.first, `/v1/messages/${id}`, tenant.key);
    for (let i = 0; i < 2; i++) expect((await erase(id, admin)).status).toBe(204);
    expect(await contentsOf(id)).toEqual({ content: null, apart: 0 });
    const after = await get(api.first, `/v1/messages/${id}`, tenant.key);
    expect(after.body).toEqual(before.body);
    expect(after.body).toMatchObject({ to: body.to, metadata: { order: 7 }, tags: ['kept'] });
    const entries = await api.admin`select actor, action from audit_log where target = ${id}`;
    expect(entries).toEqual([{ actor: admin.userId, action: 'message.content_erased' }]);
  }
});

test.each(['queued', 'held', 'deferred', 'sending', 'scheduled'])(
  'erasing the content of a message that is %s is 409',
  async (status) => {
    const { body } = await send(api.first, tenant.key, { ...LEAST.sms, body: MARK });
    await api.admin`update live_messages l set status = ${status} from messages m where m.seq = l.seq and m.id = ${body.id}`;
    const reply = await erase(body.id, await member('owner'));
    expect([reply.status, reply.body.code]).toEqual([409, 'invalid_state']);
    expect(await contentsOf(body.id)).toMatchObject({ content: { body: MARK } });
    expect(await api.admin`select from audit_log where target = ${body.id}`).toEqual([]);
  },
);

test("erasing needs an admin; a service key is 401, and another tenant's message is 404", async () => {
  const id = await ended();
  for (const role of ['viewer', 'developer'] as const) {
    expect((await erase(id, await member(role))).body.code).toBe('insufficient_role');
  }
  const byKey = await request(api.first, 'DELETE', `/v1/admin/messages/${id}/content`, {
    headers: { 'x-service-key': tenant.key.text },
  });
  expect(byKey.status).toBe(401);
  const stranger = await member('owner', await api.tenant());
  const [theirs, nobodys] = [await erase(id, stranger), await erase(randomUUID(), stranger)];
  expect([theirs.status, theirs.body.code]).toEqual([404, 'not_found']);
  expect(nobodys.status).toBe(404);
  expect(await contentsOf(id)).toMatchObject({ content: { body: MARK } });
});
