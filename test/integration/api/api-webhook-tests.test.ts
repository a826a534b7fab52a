import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ENDPOINTS_PATH, faultsOf, startWebhookApi, type WebhookApi } from '#test/support/webhook-api.ts';

let hooks: WebhookApi;
let api: WebhookApi['api'];
let tenant: WebhookApi['tenant'];
let asAdmin: WebhookApi['asAdmin'];
let create: WebhookApi['create'];
let auditOf: WebhookApi['auditOf'];

beforeAll(async () => {
  hooks = await startWebhookApi();
  ({ api, tenant, asAdmin, create, auditOf } = hooks);
});
afterAll(async () => {
  await hooks[Symbol.asyncDispose]();
});

describe('testing an endpoint', () => {
  const RESULT = {
    succeeded: false,
    request: { headers: { 'webhook-id': 'x' }, body: '{}' },
    response: { status: 500, headers: { 'content-type': 'text/plain' }, body: 'oh no' },
    error: null,
    durationMs: 12,
  };
  const rowsOf = (id: string) =>
    api.admin<{ id: string }[]>`select id from endpoint_tests where endpoint_id = ${id}`;
  async function asked(id: string): Promise<string> {
    for (;;) {
      const [row] = await rowsOf(id);
      if (row !== undefined) return row.id;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  test('requests a call from a worker and returns its result', async () => {
    const { id } = await create();
    const before = api.notices.length;
    const answer = asAdmin('POST', `${ENDPOINTS_PATH}/${id}/test`);
    const test = await asked(id);
    await api.admin`update endpoint_tests set result = ${api.admin.json(RESULT)} where id = ${test}`;
    const { status, body } = await answer;
    expect([status, body]).toEqual([200, RESULT]);
    expect(api.notices.slice(before)).toContainEqual({
      kind: 'endpoint',
      notice: { tenantId: tenant.id, id, changed: 'test' },
    });
    expect(await rowsOf(id)).toEqual([]);
    expect((await auditOf(id)).at(-1)).toMatchObject({ action: 'webhook_endpoint.tested' });
  });

  test('is refused while five tests are pending, for a developer and for an unknown endpoint', async () => {
    const { id } = await create();
    await api.admin`
      insert into endpoint_tests (endpoint_id, tenant_id) select ${id}, ${tenant.id} from generate_series(1, 5)`;
    expect(faultsOf(await asAdmin('POST', `${ENDPOINTS_PATH}/${id}/test`))).toEqual([409, 'invalid_state']);
    expect((await api.callAs('developer', tenant, 'POST', `${ENDPOINTS_PATH}/${id}/test`)).status).toBe(403);
    expect((await asAdmin('POST', `${ENDPOINTS_PATH}/${randomUUID()}/test`)).status).toBe(404);
  });

  test('is 404 as soon as the endpoint is deleted, because no worker calls it any more', async () => {
    const { id } = await create();
    const answer = asAdmin('POST', `${ENDPOINTS_PATH}/${id}/test`);
    await asked(id);
    await asAdmin('DELETE', `${ENDPOINTS_PATH}/${id}`);
    expect(faultsOf(await answer)).toEqual([404, 'not_found']);
    expect(await rowsOf(id)).toEqual([]);
  });

  test('is 503 after twenty seconds without a worker', async () => {
    const { id } = await create();
    const began = performance.now();
    const { status, body, headers } = await asAdmin('POST', `${ENDPOINTS_PATH}/${id}/test`);
    expect([status, body.code, headers['retry-after']]).toEqual([503, 'dependency_unavailable', '5']);
    expect(performance.now() - began).toBeGreaterThan(19_000);
    expect(await rowsOf(id)).toEqual([]);
  });

  test('ends when the client disconnects', async () => {
    const { id } = await create();
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = api.app.server.address() as { port: number };
    const going = new AbortController();
    const call = fetch(`http://127.0.0.1:${port}${ENDPOINTS_PATH}/${id}/test`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tenant.members.admin.token}`, 'x-tenant-slug': tenant.slug },
      signal: going.signal,
    });
    await asked(id);
    going.abort();
    await expect(call).rejects.toThrow('aborted');
    // Earlier than the api gives up the call.
    await expect.poll(() => rowsOf(id), { timeout: 15_000 }).toEqual([]);
  });
});
