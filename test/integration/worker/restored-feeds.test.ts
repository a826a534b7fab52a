import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { scanFeed } from '#core/store/webhooks/feed.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { projectRoot } from '#test/support/command.ts';
import { seedAccount, seedTenant } from '#test/support/seed.ts';
import { seqsOf, setupWebhooks } from '#test/support/setup-webhooks.ts';

/** How far the guide advances the numbers. */
const GAP = 1_000_000_000;

/** The statements of the guide that advance the feeds of a restored database. */
async function advance(): Promise<string> {
  const guide = await readFile(join(projectRoot, 'deploy/docs/backup-and-restore.md'), 'utf8');
  const blocks = [...guide.matchAll(/^ *```sql\n(.*?)^ *```/gms)].map(([, block = '']) => block);
  const found = blocks.filter((block) => block.includes('feed_heads'));
  expect(found).toHaveLength(1);
  return found[0] ?? '';
}

test('a reader ahead of a restored feed reads every event after the restore', async () => {
  await using b = await setupWebhooks();
  const { tenantId } = b.tenant;
  const told = await b.endpoint();
  await b.send(3);
  await b.match();
  const fresh = await b.endpoint({ matched_to: 3 });
  const other = await seedTenant(b.admin);
  const session = await b.admin.reserve();
  await session.unsafe(await advance());
  session.release();
  // Ids of events are made of these numbers: a receiver ignores an id that it has seen.
  const [numbers] = await b.admin<{ blocks: number; events: number }[]>`
    select nextval('despatch.message_blocks')::float8 as blocks, nextval('despatch.event_seq')::float8 as events`;
  expect(numbers?.blocks).toBeGreaterThan(1_000_000);
  expect(numbers?.events).toBeGreaterThan(GAP);
  // The reader has read a hundred numbers of the lost feed. It reads again after the new events, not before.
  const sent = await b.send(2);
  await b.match();
  const ids = (await b.loadIds()).events;
  const seqsAfter = (endpointId?: string) =>
    withTenant(b.api, tenantId as TenantId, async (tx) => {
      const { found } = await scanFeed(
        tenantId as TenantId,
        tx,
        ids,
        { endpointId },
        { before: 100, rows: 50, most: 50 },
      );
      return found.map(({ seq }) => seq);
    });
  expect(await seqsAfter()).toEqual([GAP + 4, GAP + 5]);
  expect(await seqsAfter(told)).toEqual([GAP + 4, GAP + 5]);
  expect((await b.feed(told)).slice(3)).toEqual(sent.map((message, n) => ({ seq: GAP + 4 + n, message })));

  // In the lost database a feed may have had events that has none in the restored one.
  expect((await b.feed(fresh)).map(({ seq }) => seq)).toEqual([GAP + 1, GAP + 2]);
  await seedAccount(b.admin, other.tenantId);
  await b.send(1, other);
  const heads = await b.admin`
    select last_seq::float8 as last from despatch.feed_heads where tenant_id = ${other.tenantId}`;
  expect(heads.map(({ last }) => last)).toEqual([GAP + 1]);

  const claims = await b.claims();
  expect(new Set(claims.map(({ endpoint }) => endpoint.id))).toEqual(new Set([told, fresh]));
  expect(seqsOf(claims).filter((seq) => seq > GAP)).toHaveLength(4);
});
