import { afterAll, beforeAll, expect, test } from 'vitest';
import { timeBucket } from '#core/domain/tenant/time-buckets.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import { seedAccount } from '#test/support/seed.ts';

let api: AdminApi;
let tenant: TestTenant;
beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

type Counted = {
  readonly accepted?: number;
  readonly refused?: number;
  readonly failed?: number;
  readonly delivered?: number;
  readonly undelivered?: number;
  readonly times?: readonly number[];
};

/**
 * Inserts the counts that a worker's pass would store, for the five minutes that began `minutesAgo` minutes before the current
 * ones.
 */
async function plant(accountId: string, minutesAgo: number, counted: Counted): Promise<void> {
  const { accepted = 0, refused = 0, failed = 0, delivered = 0, undelivered = 0, times = [] } = counted;
  const longest = Math.max(-1, ...times.map(timeBucket));
  const buckets = Array.from(
    { length: longest + 1 },
    (_, n) => times.filter((ms) => timeBucket(ms) === n).length,
  );
  await api.admin`insert into account_counts values (${tenant.id}, ${accountId},
    date_bin('5 minutes', now(), 'epoch') - make_interval(mins => ${minutesAgo}), ${accepted}, ${refused}, ${failed},
    ${delivered}, ${undelivered}, ${buckets})`;
}

const look = (id: string, of = tenant) => api.callAs('viewer', of, 'GET', `/v1/admin/providers/${id}/health`);
const NOTHING = {
  calls: 0,
  accepted: 0,
  refused: 0,
  failed: 0,
  successRate: null,
  callTime: null,
  delivered: 0,
  undelivered: 0,
  deliveryRate: null,
};

test('account health shows calls and receipts of the last hour and day, and nothing older', async () => {
  const [id, other] = [await seedAccount(api.admin, tenant.id), await seedAccount(api.admin, tenant.id)];
  await plant(other, 0, { accepted: 1_000, delivered: 1_000, times: [1] });
  await plant(id, 0, {
    accepted: 6,
    failed: 2,
    refused: 1,
    delivered: 3,
    times: [...Array(8).fill(100), 3_000],
  });
  await plant(id, 55, { accepted: 2, undelivered: 1, times: [100, 100] });
  await plant(id, 70, { accepted: 90, delivered: 96, times: Array<number>(90).fill(10) });
  await plant(id, 23 * 60, { failed: 1 });
  await plant(id, 24 * 60 + 10, { failed: 500, undelivered: 500, times: [60_000] });

  const { status, body } = await look(id);
  expect(status).toBe(200);
  const { lastHour, lastDay } = body as { lastHour: { since: string }; lastDay: { since: string } };
  expect(body).toEqual({
    id,
    health: 'healthy',
    lastHour: {
      since: expect.any(String) as unknown,
      calls: 11,
      accepted: 8,
      refused: 1,
      failed: 2,
      successRate: 0.8,
      callTime: { p50: expect.closeTo(100, -1.3) as unknown, p95: expect.closeTo(3_000, -2.8) as unknown },
      delivered: 3,
      undelivered: 1,
      deliveryRate: 0.75,
    },
    lastDay: {
      since: expect.any(String) as unknown,
      calls: 102,
      accepted: 98,
      refused: 1,
      failed: 3,
      successRate: 0.9703,
      callTime: { p50: expect.closeTo(10, -0.5) as unknown, p95: expect.closeTo(100, -1.3) as unknown },
      delivered: 99,
      undelivered: 1,
      deliveryRate: 0.99,
    },
  });
  for (const [since, hours] of [
    [lastHour.since, 1],
    [lastDay.since, 24],
  ] as const) {
    const early = Date.now() - hours * 3_600_000 - Date.parse(since);
    expect(Date.parse(since) % 300_000).toBe(0);
    expect(early).toBeGreaterThan(-5_000);
    expect(early).toBeLessThan(305_000);
  }
  const account = await api.callAs('viewer', tenant, 'GET', `/v1/admin/providers/${id}`);
  expect(account.body).toMatchObject({ id, health: 'healthy', recent: { lastHour, lastDay } });
  const { items } = (await api.callAs('viewer', tenant, 'GET', '/v1/admin/providers')).body;
  for (const item of items as object[]) expect(item).not.toHaveProperty('recent');
});

test('health of an unused account has zero counts; that of a foreign or deleted account is 404', async () => {
  const id = await seedAccount(api.admin, tenant.id);
  const since = expect.any(String) as unknown;
  expect((await look(id)).body).toEqual({
    id,
    health: 'healthy',
    lastHour: { since, ...NOTHING },
    lastDay: { since, ...NOTHING },
  });
  expect((await look(id, await api.tenant())).status).toBe(404);
  await api.admin`update provider_accounts set status = 'deleted' where id = ${id}`;
  expect((await look(id)).status).toBe(404);
});
