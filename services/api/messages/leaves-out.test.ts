import { expect, test } from 'vitest';
import type { MessageFilter } from '#core/store/messages/messages.ts';
import { leavesOut } from './leaves-out.ts';

test.each<[MessageFilter]>([
  [{}],
  [{ status: undefined, test: undefined }],
  [{ test: true }],
  [{ batchId: 'b' }],
  [{ test: true, externalId: 'e', since: '2026-01-01T00:00:00Z', until: '2026-02-01T00:00:00Z' }],
])('filter %o leaves out few of the messages that are read', (filter) => {
  expect(leavesOut(filter)).toBe(false);
});

test.each<[MessageFilter]>([
  [{ test: false }],
  [{ status: 'failed' }],
  [{ channel: 'sms', test: false }],
  [{ to: '+15550000001' }],
  [{ accountId: 'a' }],
  [{ parentId: 'p' }],
  [{ tag: 't' }],
  [{ metadata: { a: '1' }, since: '2026-01-01T00:00:00Z' }],
])('filter %o leaves out many of the messages that are read', (filter) => {
  expect(leavesOut(filter)).toBe(true);
});
