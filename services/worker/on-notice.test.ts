import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { onNotice, type WorkerNotice } from './on-notice.ts';

const ID = '3f0c1e6a-8d43-4b55-9c4e-0a6a3f1f2b11';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function setup() {
  const noted: string[] = [];
  const note =
    (what: string) =>
    (...facts: readonly (string | number | undefined)[]): void =>
      void noted.push([what, ...facts.filter((one) => one !== undefined)].join(' '));
  const notice = onNotice({
    store: { resumeLookups: async (id) => note('resume')(id) },
    breakers: { reset: note('reset') },
    credentials: [{ invalidate: note('invalidate') }, { invalidate: note('invalidate replaced') }],
    dispatcher: { accountChanged: note('changed') },
    moves: { add: note('move') },
    partitionMaker: { request: () => 1_000 },
    receiptTimeouts: { forget: note('forget') },
    webhooks: { endpointChanged: note('endpoint') },
    events: { taskFailed: (task) => note('failed')(task) },
    wake: note('wake'),
  });
  return { notice, noted };
}

const ACCOUNT = ['reset', 'invalidate', 'invalidate replaced', 'changed', 'resume'].map(
  (one) => `${one} ${ID}`,
);

test.each<[string, WorkerNotice, readonly string[]]>([
  ['account', { id: ID }, [...ACCOUNT, 'wake verify', 'wake sweep', 'wake lookups']],
  ['account', {}, ['wake verify', 'wake sweep']],
  ['clock', {}, ['wake sweep', 'wake late_receipts']],
  ['route', { tenantId: ID }, [`forget ${ID}`]],
  ['endpoint', { id: ID }, [`endpoint ${ID} secrets`]],
  ['endpoint', { id: ID, changed: 'due' }, [`endpoint ${ID} due`]],
  ['endpoint', { id: ID, changed: 'test' }, ['wake endpoint_tests']],
  ['endpoint', { id: 'no id' }, []],
  ['tenant', { tenantId: 'no id' }, []],
  ['key', { id: ID, tenantId: ID }, []],
])('a notice of the kind %s with %j', async (kind, content, effects) => {
  const { notice, noted } = setup();
  notice(kind, content);
  await vi.advanceTimersByTimeAsync(0);
  expect(noted).toEqual(effects);
});

test('the messages of a changed tenant are moved at once, and again for those that were being accepted', async () => {
  const { notice, noted } = setup();
  const moving = [`move ${ID}`, 'wake tenant_moves', 'wake sweep', 'wake policies'];
  notice('tenant', { tenantId: ID });
  expect(noted).toEqual([...moving, 'wake partitions 1000']);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(noted).toEqual([...moving, 'wake partitions 1000', ...moving]);
});
