import { afterAll, beforeAll, expect, test } from 'vitest';
import { request, startTestApi, type Instance, type Reply, type TestApi } from '#test/support/api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api[Symbol.asyncDispose]());

test('a repeated creation gets the first answer after the operator has closed the address range', async () => {
  const webhooks = { allowCidrs: ['10.0.0.0/8'], allowHttp: false, ports: [443] };
  const open = await api.instance({ settings: { webhooks } });
  const tenant = await api.tenant();
  const { token } = await api.member(tenant, 'admin');
  const create = (to: Instance, key: string): Promise<Reply> =>
    request(to, 'POST', '/v1/admin/providers', {
      headers: {
        authorization: `Bearer ${token}`,
        'x-tenant-slug': tenant.slug,
        'idempotency-key': key,
      },
      body: {
        provider: 'smtp',
        label: 'Mail',
        publicConfig: { host: '10.0.0.1', from: 'a@example.com', unread: 1 },
        secretConfig: {},
      },
    });
  const first = await create(open, 'one');
  const again = await create(api.first, 'one');
  expect([first.status, first.body.warnings]).toMatchObject([201, [{ field: 'publicConfig.unread' }]]);
  expect([again.status, again.headers['idempotent-replayed'], again.body]).toEqual([201, 'true', first.body]);
  const other = await create(api.first, 'two');
  expect([other.status, other.body.code]).toEqual([400, 'url_blocked']);
});
