import { expect, test } from 'vitest';
import type { ClosedReason } from '#core/domain/routing/skipped-account.ts';
import type { SweepTask } from '#core/store/sending/lane.ts';
import { sweep } from './sweep.ts';

/** The database's time, which is far from this process's. */
const NOW = 1_000_000;
const lookedAt = (): number => NOW;
const due = (accountId: string, ageMs: number, isSlowed = false): SweepTask => ({
  task: 'due',
  tenantId: 't',
  accountId,
  oldestDue: new Date(NOW - ageMs),
  isSlowed,
});

const WHY: Readonly<Record<string, ClosedReason>> = { blocked: 'breaker_open', 'used up': 'rate_used_up' };

test('marks every due lane, and measures the longest wait of open lanes that are not slowed', async () => {
  const marked: string[] = [];
  const delayed: string[] = [];
  const closed: string[] = [];
  const looks = {
    dueLanes: () =>
      Promise.resolve([
        due('open', 4_000),
        due('blocked', 900_000),
        due('used up', 900_000),
        due('without credential', 900_000),
        due('slowed', 600_000, true),
      ]),
    lookedAt,
  };
  const overdue = await sweep({
    looks,
    dispatcher: {
      mark: ({ accountId }) => marked.push(accountId),
      isOpen: (accountId) => ['open', 'slowed'].includes(accountId),
      whyClosed: (accountId) => WHY[accountId],
    },
    moves: { add: () => undefined },
    scheduled: { add: () => undefined },
    delayed: { add: ({ accountId }) => delayed.push(accountId) },
    closed: { add: ({ accountId }) => closed.push(accountId) },
  });
  expect([overdue, marked, delayed, closed]).toEqual([
    { oldestDueSeconds: 4, oldestScheduledSeconds: 0 },
    ['open', 'blocked', 'used up', 'without credential', 'slowed'],
    ['blocked', 'used up'],
    ['blocked', 'without credential'],
  ]);
});

test('adds tenants to hold, release and queue, and counts the wait of due scheduled messages', async () => {
  const added: string[] = [];
  const found: SweepTask[] = [
    { task: 'review', tenantId: 'h', accountId: 'inactive' },
    { task: 'hold', tenantId: 'h' },
    { task: 'release', tenantId: 'r' },
    { task: 'queue', tenantId: 's', oldestDue: new Date(NOW - 7_000) },
  ];
  const scheduled: [string, number][] = [];
  const overdue = await sweep({
    looks: { dueLanes: () => Promise.resolve(found), lookedAt },
    dispatcher: { mark: () => undefined, isOpen: () => true, whyClosed: () => undefined },
    moves: { add: (tenantId) => added.push(tenantId) },
    scheduled: { add: (tenantId, oldestDue) => scheduled.push([tenantId, oldestDue.getTime()]) },
    delayed: { add: () => undefined },
    closed: { add: ({ accountId }) => added.push(accountId) },
  });
  expect(added).toEqual(['inactive', 'h', 'r']);
  // A scheduled message that is due and not queued yet is late.
  expect([scheduled, overdue]).toEqual([
    [['s', NOW - 7_000]],
    { oldestDueSeconds: 7, oldestScheduledSeconds: 7 },
  ]);
});
