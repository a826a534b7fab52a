import { expect, test } from 'vitest';
import type { ReportRow, SettledReceiptCalls, StoredReceiptCall } from '#core/store/receipt-reports.ts';
import { settleCalls, type ReadCall } from './settle-calls.ts';

function read(id: number, reports = 1): ReadCall {
  const call = { id, accountId: `account ${id}` } as StoredReceiptCall;
  const rows = Array.from({ length: reports }, () => ({ call_id: id }) as ReportRow);
  return { call, provider: 'twilio', reading: { kind: 'read', reports: rows }, againMs: undefined };
}

/** A database that refuses some calls' reports. */
function database(fault: (batch: SettledReceiptCalls) => Error | undefined = () => undefined) {
  const commits: SettledReceiptCalls[] = [];
  const faults: unknown[] = [];
  return {
    commits,
    faults,
    deps: {
      store: {
        async settleReceiptCalls(batch: SettledReceiptCalls): Promise<void> {
          const error = fault(batch);
          if (error !== undefined) throw error;
          commits.push(batch);
        },
      },
      onUnstorable: (_: string, error: unknown) => void faults.push(error),
    },
  };
}

const refusal = (code: string): Error => Object.assign(new Error('no'), { name: 'PostgresError', code });
const doneBy = (commits: readonly SettledReceiptCalls[]) => commits.map(({ done }) => done);

test('calls of one moment share a commit', async () => {
  const { deps, commits } = database();
  const again: ReadCall = { ...read(3), reading: { kind: 'undecided' }, againMs: 2_000 };
  const forged: ReadCall = { ...read(4), reading: { kind: 'forged', reason: 'signature_missing' } };
  await settleCalls([read(1), read(2), again, forged], deps);
  expect(commits).toEqual([
    {
      reports: [{ call_id: 1 }, { call_id: 2 }],
      done: [1, 2, 4],
      again: [{ id: 3, ms: 2_000 }],
      genuine: ['account 1', 'account 2'],
      refused: [{ account_id: 'account 4', reason: 'signature_missing' }],
    },
  ]);
  await settleCalls([], deps);
  expect(commits).toHaveLength(1);
});

test('a call that says very much is a commit of its own, and each is settled once', async () => {
  const { deps, commits } = database();
  await settleCalls([read(1), read(2, 20_000), read(3), read(4, 1_999), read(5)], deps);
  expect(doneBy(commits)).toEqual([[1], [2], [3, 4], [5]]);
});

test('what the database refuses to take takes nobody else with it', async () => {
  const { deps, commits, faults } = database(({ reports }) =>
    reports.some(({ call_id }) => call_id === 3 || call_id === 6) ? refusal('22P05') : undefined,
  );
  const settled = await settleCalls(
    [1, 2, 3, 4, 5, 6, 7].map((id) => read(id)),
    deps,
  );
  expect(doneBy(commits).flat()).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(commits.flatMap(({ reports }) => reports.map(({ call_id }) => call_id))).toEqual([1, 2, 4, 5, 7]);
  expect(commits.flatMap(({ genuine }) => genuine)).not.toContain('account 3');
  expect(settled.flatMap(({ reading, call }) => (reading.kind === 'read' ? [] : [call.id]))).toEqual([3, 6]);
  expect(faults).toHaveLength(2);
});

test.each(['57014', '42883'])('a fault that is no call’s (%s) gives no call up', async (code) => {
  const { deps, faults } = database(() => refusal(code));
  await expect(settleCalls([read(1), read(2)], deps)).rejects.toMatchObject({ code });
  expect(faults).toEqual([]);
});

test('a refusal of something else than reports is told as it is', async () => {
  const { deps } = database(() => refusal('22P05'));
  await expect(settleCalls([read(1)], deps)).rejects.toMatchObject({ code: '22P05' });
});
