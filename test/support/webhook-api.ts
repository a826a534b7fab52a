import { expect } from 'vitest';
import { webhookSecretBinding } from '#core/domain/storage/binding.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import { startAdminApi, type AdminApi, type TestTenant } from './admin-api.ts';
import type { Reply } from './api.ts';

export const ENDPOINTS_PATH = '/v1/admin/webhook-endpoints';
/** The smallest valid endpoint. */
export const LEAST_ENDPOINT = {
  url: 'https://shop.example.com/hooks?for=despatch',
  eventTypes: ['message.*'],
};
/** The form of an endpoint's signing secret. */
export const ENDPOINT_SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/;

export type WebhookApi = AsyncDisposable & {
  readonly api: AdminApi;
  /** May have a thousand endpoints. */
  readonly tenant: TestTenant;
  /** Calls the api as an admin of `tenant`. */
  readonly asAdmin: (method: string, url: string, body?: unknown, key?: string) => Promise<Reply>;
  /** Creates an endpoint: the smallest valid one with these fields. */
  readonly createFor: (of: TestTenant, body?: object) => Promise<Reply['body']>;
  readonly create: (body?: object) => Promise<Reply['body']>;
  readonly rowOf: (id: string) => Promise<Record<string, never>>;
  readonly open: (
    binding: Parameters<AdminApi['keyring']['decrypt']>[0],
    ciphertext: string,
  ) => Promise<Buffer>;
  /** Decrypts a secret of an endpoint of `tenant`. */
  readonly secretIn: (ciphertext: string, id: string) => Promise<string>;
  readonly auditOf: (
    target: string,
  ) => Promise<readonly { action: string; changes: unknown; target_name: string }[]>;
};

export const endpointLimits = (webhookEndpointsMax: number): Partial<Limits> => ({ webhookEndpointsMax });

/** Starts an api whose admins manage webhook endpoints. */
export async function startWebhookApi(): Promise<WebhookApi> {
  const api = await startAdminApi();
  const tenant = await api.tenant(endpointLimits(1_000));
  const createFor = async (of: TestTenant, body: object = {}): Promise<Reply['body']> => {
    const reply = await api.callAs('admin', of, 'POST', ENDPOINTS_PATH, { ...LEAST_ENDPOINT, ...body });
    expect([reply.status, reply.body.code]).toEqual([201, undefined]);
    return reply.body;
  };
  const open: WebhookApi['open'] = async (binding, ciphertext) =>
    Buffer.from(await api.keyring.decrypt(binding, ciphertext));
  return {
    api,
    tenant,
    asAdmin: (method, url, body, key) => api.callAs('admin', tenant, method, url, body, key),
    createFor,
    create: (body) => createFor(tenant, body),
    async rowOf(id) {
      const [row] = await api.admin`select * from webhook_endpoints where id = ${id}`;
      return row as Record<string, never>;
    },
    open,
    secretIn: async (ciphertext, id) =>
      (await open(webhookSecretBinding(tenant.id, id), ciphertext)).toString(),
    auditOf: (target) => api.admin<{ action: string; changes: unknown; target_name: string }[]>`
      select action, changes, target_name from audit_log where target = ${target} order by seq`,
    [Symbol.asyncDispose]: () => api[Symbol.asyncDispose](),
  };
}

/** The status, code and faults of a refused request. */
export const faultsOf = ({ status, body }: Reply) => [
  status,
  body.code,
  ...(body.details ?? []).map(({ field, rule }: { field: string; rule: string }) => `${field}: ${rule}`),
];
