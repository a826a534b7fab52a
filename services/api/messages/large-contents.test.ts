import { expect, test } from 'vitest';
import type { AcceptRow } from '#core/store/messages/acceptance.ts';
import { createLargeContents } from './large-contents.ts';

const row = (tenant: string, seq: number) =>
  ({ tenant_id: tenant, seq, content: {} }) as unknown as AcceptRow;

test('the refused contents of a request are deleted in one transaction, and one transaction runs at a time', async () => {
  const deleted: (readonly [string, readonly number[]])[] = [];
  const running = { now: 0, most: 0 };
  const { forget } = createLargeContents({
    storeContent: () => Promise.resolve(),
    async forgetContents(tenantId, seqs) {
      running.now += 1;
      running.most = Math.max(running.most, running.now);
      await new Promise((resolve) => setImmediate(resolve));
      running.now -= 1;
      deleted.push([tenantId, seqs]);
      if (tenantId === 'broken') throw new Error('the database is away');
    },
  });
  const noisy = Array.from({ length: 450 }, (_, seq) => row('noisy', seq));
  await Promise.all([
    forget(noisy),
    forget(noisy.slice(0, 2)),
    forget([row('broken', 1)]),
    forget([row('quiet', 2)]),
  ]);
  expect(deleted.map(([tenant, seqs]) => [tenant, seqs.length])).toEqual([
    ['noisy', 450],
    ['broken', 1],
    ['quiet', 1],
    ['noisy', 2],
  ]);
  expect(running.most).toBe(1);
});
