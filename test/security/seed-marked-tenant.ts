import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import type { Limits } from '#core/domain/tenant/plan.ts';
import type { AdminApi, TestTenant } from '#test/support/admin-api.ts';
import { plantDeliveries, plantHistory } from './tenant-rows.ts';

/** The names by which a request can refer to a tenant or its objects. */
export type Names = {
  readonly tenantId: string;
  readonly slug: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly endpointId: string;
  readonly deliveryId: string;
  readonly eventId: string;
  readonly suppressionId: string;
  readonly messageId: string;
  readonly userId: string;
  readonly externalId: string;
  readonly to: string;
  readonly cursors: readonly string[];
};

/** A tenant with a row in every table and a recognisable mark in every text. */
export type MarkedTenant = TestTenant & {
  readonly names: Names;
  readonly serviceKeys: Readonly<Record<'live' | 'test', string>>;
  /** Texts that occur only in this tenant's data; an answer that contains one leaks it. */
  readonly marks: readonly string[];
  readonly secret: string;
};

const ROOM = 1_000;
const LIMITS: Partial<Limits> = {
  providersPerChannelMax: ROOM,
  apiKeysMax: ROOM,
  membersMax: ROOM,
  webhookEndpointsMax: ROOM,
};
const LISTS = [
  '/v1/admin/providers',
  '/v1/admin/api-keys',
  '/v1/admin/webhook-endpoints',
  '/v1/admin/members',
  '/v1/admin/suppressions',
  '/v1/admin/messages',
  '/v1/messages',
  '/v1/admin/audit-log',
];

export async function seedMarkedTenant(api: AdminApi): Promise<MarkedTenant> {
  const mark = `mark${randomBytes(8).toString('hex')}`;
  const secret = randomBytes(16).toString('hex');
  const to = `+1555${randomInt(1_000_000, 9_999_999)}`;
  const sender = `+1556${randomInt(1_000_000, 9_999_999)}`;
  const accountSid = `AC${randomBytes(16).toString('hex')}`;
  const tenant = await api.tenant(LIMITS);
  const owner = { as: tenant.members.owner, slug: tenant.slug };
  const headers = { 'x-app-name': `${mark}-app`, 'x-request-id': `${mark}-request` };
  const made = async (url: string, body: unknown) => {
    const reply = await api.call('POST', url, { ...owner, headers, body });
    if (reply.status !== 201) throw new Error(`${url} answered ${reply.text}`);
    return reply.body;
  };

  await api.call('PATCH', `/v1/admin/tenants/${tenant.id}`, { ...owner, body: { name: `${mark}-tenant` } });
  const account = {
    provider: 'twilio',
    label: `${mark}-label`,
    publicConfig: { accountSid, from: sender, note: `${mark}-note` },
    secretConfig: { authToken: secret },
  };
  const provider = await made('/v1/admin/providers', account);
  await made('/v1/admin/providers', account);
  const route = { strategy: 'priority', steps: [{ providerId: provider.id }] };
  await api.call('PUT', '/v1/admin/routes/sms', { ...owner, headers, body: route });
  const keys = {
    live: await made('/v1/admin/api-keys', { name: `${mark}-key` }),
    test: await made('/v1/admin/api-keys', { name: `${mark}-test-key`, mode: 'test' }),
  };
  const endpoint = {
    url: `https://example.com/${mark}`,
    eventTypes: ['*'],
    headers: { Authorization: `Bearer ${secret}`, [mark]: mark },
    signatures: ['v1', 'v1a'],
  };
  const { id: endpointId, secret: signing } = await made('/v1/admin/webhook-endpoints', endpoint);
  await made('/v1/admin/webhook-endpoints', endpoint);
  const suppressed = await made('/v1/admin/suppressions', { channel: 'sms', address: to });
  await made('/v1/admin/suppressions', { channel: 'email', address: `${mark}@example.org` });
  const externalId = `${mark}-external`;
  const messages: string[] = [];
  for (const content of ['first', 'second']) {
    const reply = await api.call('POST', '/v1/messages', {
      headers: { 'x-service-key': keys.live.key },
      body: {
        channel: 'sms',
        to,
        body: `${mark}-${content}`,
        externalId,
        metadata: { [mark]: mark },
        tags: [`${mark}-tag`],
      },
    });
    if (reply.status !== 202) throw new Error(`a message was answered ${reply.text}`);
    messages.push(reply.body.id);
  }
  const messageId = messages[0] ?? '';
  await plantHistory(api.admin, { id: messageId, mark, accountId: provider.id });
  await plantDeliveries(api.admin, { endpointId, messages, mark });
  const deliveries = `/v1/admin/webhook-endpoints/${endpointId}/deliveries`;
  const { body: delivered } = await api.call('GET', deliveries, owner);
  const eventIds: string[] = delivered.items.map((one: { eventId: string }) => one.eventId);
  const deliveryIds: string[] = delivered.items.map(({ id }: { id: string }) => id);

  const cursors: string[] = [];
  for (const path of [
    ...LISTS,
    deliveries,
    ...['attempts', 'events'].map((of) => `/v1/messages/${messageId}/${of}`),
  ]) {
    const { body } = await api.call('GET', `${path}?limit=1`, owner);
    if (typeof body.nextCursor !== 'string') throw new Error(`${path} has no second page`);
    cursors.push(body.nextCursor);
  }
  const people = Object.values(tenant.members).flatMap(({ userId, subject, email }) => [
    userId,
    subject,
    email,
  ]);
  return {
    ...tenant,
    secret,
    serviceKeys: { live: keys.live.key, test: keys.test.key },
    names: {
      tenantId: tenant.id,
      slug: tenant.slug,
      accountId: provider.id,
      keyId: keys.live.id,
      endpointId,
      deliveryId: deliveryIds[0] ?? '',
      eventId: eventIds[0] ?? '',
      suppressionId: suppressed.id,
      messageId,
      userId: tenant.members.developer.userId,
      externalId,
      to,
      cursors,
    },
    marks: [
      mark,
      secret,
      to,
      sender,
      accountSid,
      tenant.id,
      tenant.slug,
      provider.id,
      endpointId,
      suppressed.id,
      ...deliveryIds,
      ...eventIds,
      signing,
      keys.live.id,
      keys.live.prefix,
      keys.test.id,
      keys.test.prefix,
      ...messages,
      ...people,
    ],
  };
}

/** Returns names of the same forms that refer to nothing. */
export function strangerNames(): Names {
  const tenantId = randomUUID();
  return {
    tenantId,
    slug: `t-${tenantId.slice(0, 8)}`,
    accountId: randomUUID(),
    keyId: randomUUID(),
    endpointId: randomUUID(),
    deliveryId: randomUUID(),
    eventId: randomUUID(),
    suppressionId: randomUUID(),
    messageId: randomUUID(),
    userId: randomUUID(),
    externalId: `mark${randomBytes(8).toString('hex')}-external`,
    to: `+1555${randomInt(1_000_000, 9_999_999)}`,
    cursors: Array.from({ length: 8 }, () => randomBytes(24).toString('base64url')),
  };
}
