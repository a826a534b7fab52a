import { expect, test } from 'vitest';
import { seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

const HIGHEST = 4_194_303;

async function setup() {
  const stores = await setupStores();
  const { admin } = stores;
  const { tenantId } = await seedTenant(admin);
  async function endpoint(deletedAgo: string | null = null): Promise<{ id: string; number: number }> {
    const [made] = await admin<{ id: string; number: number }[]>`
      insert into despatch.webhook_endpoints (tenant_id, url, event_types, secret, matched_to, deleted_at)
      values (${tenantId}, 'https://hooks.test/', '{*}', 's', 0, now() - ${deletedAgo}::interval) returning id, number`;
    if (made === undefined) throw new Error('no endpoint was made');
    return made;
  }
  const due = (id: string) => admin`
    insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
    values (${id}, ${tenantId}, 1, 1, current_date + 30, 'infinity')`;
  const told = (id: string) => admin`
    insert into despatch.endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
    values (1, 1, 1, now(), ${id}, ${tenantId}, current_date + 30, '{1}', '{0}')`;
  const left = async () =>
    (await admin<{ id: string }[]>`select id from despatch.webhook_endpoints`).map(({ id }) => id).toSorted();
  return { ...stores, tenantId, endpoint, due, told, left };
}

test('a deleted webhook endpoint is purged once its delivery history is gone', async () => {
  await using b = await setup();
  const [live, fresh] = [await b.endpoint(), await b.endpoint('1 minute')];
  const [idle, waiting, read] = [
    await b.endpoint('2 hours'),
    await b.endpoint('2 hours'),
    await b.endpoint('2 hours'),
  ];
  for (const { id } of [live, fresh, waiting, read]) await b.due(id);
  await b.admin`insert into despatch.endpoint_heads (endpoint_id, feed_seq, last_seq, tenant_id) values (${idle.id}, 1, 1, ${b.tenantId})`;
  await b.told(read.id);
  const looksAt = async () => {
    await b.store.maintain();
    return b.left();
  };
  expect(await looksAt()).toEqual([live.id, fresh.id, read.id].toSorted());
  expect(await b.admin`select from despatch.endpoint_heads`).toHaveLength(0);
  const due = await b.admin<{ id: string }[]>`select endpoint_id as id from despatch.due_deliveries`;
  expect(due.map(({ id }) => id).toSorted()).toEqual([live.id, fresh.id].toSorted());
  await b.admin`delete from despatch.endpoint_feed`;
  // The endpoint is looked at until its partitions may have been dropped.
  expect(await looksAt()).toContain(read.id);
  await b.admin`update despatch.webhook_endpoints set look_on = look_on - 7 where id = ${read.id}`;
  expect(await looksAt()).toEqual([live.id, fresh.id].toSorted());
});

test('endpoint numbers increase, and free numbers are reused after the highest was assigned', async () => {
  await using b = await setup();
  const numbers: number[] = [];
  for (let i = 0; i < 3; i += 1) numbers.push((await b.endpoint()).number);
  const [second] = await b.admin<{ id: string }[]>`
    delete from despatch.webhook_endpoints where number = 2 returning id`;
  expect(second).toBeDefined();
  numbers.push((await b.endpoint()).number);
  await b.admin`update despatch.webhook_endpoints set number = ${HIGHEST} where number = 4`;
  for (let i = 0; i < 3; i += 1) numbers.push((await b.endpoint()).number);
  await b.admin`delete from despatch.webhook_endpoints where number = 1`;
  numbers.push((await b.endpoint()).number);
  expect(numbers).toEqual([1, 2, 3, 4, 2, 4, 5, 1]);
});
