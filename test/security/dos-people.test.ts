import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { call, type CallAnswer } from '#test/support/http-call.ts';
import { startOidcIssuer, type OidcIssuer } from '#test/support/oidc-issuer.ts';
import { AUDIENCE } from '../../deploy/quickstart/people.ts';
import { startDosTarget, type DosTarget } from './dos-target.ts';

const MESSAGE = { channel: 'sms', to: '+15550000001', body: 'Hello' };
/** Calls without a tenant that one person may make a minute. */
const OWN_LIMIT = 60;

type Person = { readonly token: string; readonly tenantId: string; readonly slug: string };

let issuer: OidcIssuer;
let target: DosTarget;
beforeAll(async () => {
  issuer = await startOidcIssuer();
  target = await startDosTarget({
    OIDC_ISSUER: issuer.issuer,
    OIDC_JWKS_URL: issuer.jwksUrl,
    DATABASE_POOL_MAX: '4',
    DATABASE_CHANGE_POOL_MAX: '5',
  });
});
afterAll(async () => {
  await target?.[Symbol.asyncDispose]();
  await issuer?.[Symbol.asyncDispose]();
});

const send = async (key: string): Promise<number> =>
  (await call(target.api.origin, 'POST', '/v1/messages', { key, body: MESSAGE })).status;

/** Signs a person in, who makes a tenant. */
async function openPerson(): Promise<Person> {
  const sub = randomUUID();
  const token = await issuer.mint({ sub, audience: AUDIENCE });
  const body = { name: 'A tenant', slug: `t-${sub.slice(0, 8)}` };
  const made = await call(target.api.origin, 'POST', '/v1/admin/tenants', { token, body });
  expect(made.status).toBe(201);
  return { token, tenantId: made.body.id as string, slug: body.slug };
}

const makeKey = ({ token, slug }: Person): Promise<CallAnswer> =>
  call(target.api.origin, 'POST', '/v1/admin/api-keys', {
    token,
    slug,
    body: { name: 'a key', scopes: ['messages:send'] },
  });

const makeEndpoint = ({ token, slug }: Person, idempotencyKey: string): Promise<CallAnswer> =>
  call(target.api.origin, 'POST', '/v1/admin/webhook-endpoints', {
    token,
    slug,
    headers: { 'idempotency-key': idempotencyKey },
    body: { url: 'https://example.com/hook', eventTypes: ['message.sent'] },
  });

/** Keeps the tenant's row locked while `during` runs. */
const holdTenant = <T>({ tenantId }: Person, during: () => Promise<T>): Promise<T> =>
  target.whileLocked((tx) => tx`select from tenants where id = ${tenantId} for update`, during);
const stuck = () => target.stuck();

const countings = async (): Promise<number> =>
  Number(/^despatch_\w+_count\{op="take_rate"\} (\d+)/m.exec(await target.api.metrics())?.[1]);

test.each([
  ["one tenant's changes that wait for each other", (loud: Person) => makeKey(loud)],
  [
    'calls that wait for the first one with the same idempotency key',
    (loud: Person) => makeEndpoint(loud, 'one'),
  ],
])('%s block neither sends nor changes of other tenants', async (_, change) => {
  const [loud, quiet] = [await openPerson(), await openPerson()];
  const key = await target.key();
  expect([await send(key), (await makeKey(quiet)).status]).toEqual([202, 201]);
  const changes: Promise<CallAnswer>[] = [];
  await holdTenant(loud, async () => {
    changes.push(change(loud));
    await expect.poll(stuck).toBe(1);
    for (let i = 0; i < 40; i += 1) changes.push(change(loud));
    await expect.poll(stuck).toBe(2);
    for (let i = 0; i < 5; i += 1) {
      expect(await send(key)).toBe(202);
      expect((await makeKey(quiet)).status).toBe(201);
    }
    expect(await stuck()).toBe(2);
  });
  const statuses = (await Promise.all(changes)).map(({ status }) => status);
  expect(new Set(statuses).has(201)).toBe(true);
  expect(statuses.filter((status) => status >= 500)).toEqual([]);
});

test("a user's calls are counted with few statements, and with none beyond the rate limit", async () => {
  const { token } = await openPerson();
  const ask = () => call(target.api.origin, 'GET', '/v1/admin/me', { token });
  const before = await countings();
  const answers = await Promise.all(Array.from({ length: 300 }, ask));
  const counted = await countings();
  const passed = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status === 429);
  // The person's first call made the tenant.
  expect([passed.length, refused.length]).toEqual([OWN_LIMIT - 1, 300 - (OWN_LIMIT - 1)]);
  expect(refused.filter(({ headers }) => !(Number(headers.get('retry-after')) > 0))).toEqual([]);
  expect(counted - before).toBeGreaterThan(0);
  expect(counted - before).toBeLessThan(OWN_LIMIT);

  const later = await Promise.all(Array.from({ length: 50 }, ask));
  expect(new Set(later.map(({ status }) => status))).toEqual(new Set([429]));
  expect(await countings()).toBe(counted);
});
