import { expect, test } from 'vitest';
import type { SweepTask } from '#core/store/deliveries.ts';
import { sweep } from './sweep.ts';

const NOW = 1_000_000;
const due = (accountId: string, ageMs: number): SweepTask => ({
  task: 'due',
  tenantId: 't',
  accountId,
  oldestDue: new Date(NOW - ageMs),
});

test('every lane is marked, and the wait is that of the longest that could be sent', async () => {
  const marked: string[] = [];
  const store = { dueLanes: () => Promise.resolve([due('open', 4_000), due('blocked', 900_000)]) };
  const seconds = await sweep(
    store as never,
    { mark: ({ accountId }) => marked.push(accountId), isOpen: (accountId) => accountId === 'open' },
    NOW,
  );
  expect([seconds, marked]).toEqual([4, ['open', 'blocked']]);
});

test('where nothing could be released it is not looked for again', async () => {
  let looks = 0;
  await sweep(
    {
      dueLanes: () => {
        looks++;
        return Promise.resolve([{ task: 'release', tenantId: 'r' }]);
      },
      holdTenant: () => Promise.resolve(0),
      releaseTenant: () => Promise.resolve(0),
    },
    { mark: () => undefined, isOpen: () => true },
    NOW,
  );
  expect(looks).toBe(1);
});

test('suspended tenants are held and resumed ones released, whose messages are found at once', async () => {
  const done: string[] = [];
  const answers: SweepTask[][] = [
    [
      { task: 'hold', tenantId: 'h' },
      { task: 'release', tenantId: 'r' },
    ],
    [due('a', 0)],
  ];
  await sweep(
    {
      dueLanes: () => Promise.resolve(answers.shift() ?? []),
      holdTenant: (id) => Promise.resolve(done.push(`hold ${id}`)),
      // Another round as long as there is as much as was asked for.
      releaseTenant: (id, most) => Promise.resolve(done.push(`release ${id}`) < 3 ? most : 1),
    },
    { mark: ({ accountId }) => done.push(`mark ${accountId}`), isOpen: () => true },
    NOW,
  );
  expect(done).toEqual(['hold h', 'release r', 'release r', 'mark a']);
});
