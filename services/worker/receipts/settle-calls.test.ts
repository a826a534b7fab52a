import { expect, test } from 'vitest';
import type {
  CallReportRow,
  SettledReceiptCalls,
  StoredReceiptCall,
} from '#core/store/receipts/receipt-reports.ts';
import { createRefusals } from '../refusals.ts';
import { REPORTS_AT_ONCE, settleCalls, type ReadCall } from './settle-calls.ts';

function read(id: number, reports = 1): ReadCall {
  const call = { id, accountId: `account ${id}`, tries: 1 } as StoredReceiptCall;
  const rows = Array.from({ length: reports }, () => ({ call_id: id }) as CallReportRow);
  return {
    call,
    provider: 'twilio',
    reading: { kind: 'read', reports: rows },
    readMs: 1,
    againMs: undefined,
  };
}

/** Creates a database that rejects the reports of some calls. */
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
      refusals: createRefusals(),
      againAfter: ({ tries }: StoredReceiptCall) => (tries < 3 ? tries * 1_000 : undefined),
      onUnstorable: (_: string, error: unknown) => void faults.push(error),
      pace: <Stored>(store: () => Promise<Stored>) => store(),
      reportsMax: REPORTS_AT_ONCE,
    },
  };
}

const refusal = (code: string): Error => Object.assign(new Error('no'), { name: 'PostgresError', code });
const doneBy = (commits: readonly SettledReceiptCalls[]) => commits.map(({ done }) => done);

test('calls that are settled together share a commit', async () => {
  const { deps, commits } = database();
  const again: ReadCall = { ...read(3), reading: { kind: 'undecided' }, againMs: 2_000 };
  const misconfigured: ReadCall = {
    ...read(6),
    reading: { kind: 'undecided', isMisconfigured: true },
    againMs: 1_000,
  };
  const givenUp: ReadCall = { ...read(7), reading: { kind: 'undecided' } };
  const forged: ReadCall = { ...read(4), reading: { kind: 'forged', reason: 'signature_missing' } };
  const unreadable: ReadCall = { ...read(5), reading: { kind: 'unreadable' } };
  const kept: ReadCall = {
    ...read(8),
    reading: { kind: 'forged', reason: 'signature_mismatch' },
    againMs: 60_000,
  };
  const refusedBefore: ReadCall = {
    ...read(9),
    reading: kept.reading,
    call: { ...read(9).call, wasRefused: true },
  };
  await settleCalls(
    [read(1), read(2), again, forged, unreadable, misconfigured, givenUp, kept, refusedBefore],
    deps,
  );
  expect(commits).toEqual([
    {
      reports: [{ call_id: 1 }, { call_id: 2 }],
      begun: [],
      done: [4, 5, 7, 9, 1, 2],
      again: [
        { id: 3, ms: 2_000, misconfigured: false },
        { id: 6, ms: 1_000, misconfigured: true },
        { id: 8, ms: 60_000, misconfigured: false, refused: true },
      ],
      genuine: ['account 1', 'account 2'],
      refused: [
        { account_id: 'account 4', reason: 'signature_missing' },
        { account_id: 'account 5', reason: 'unreadable' },
        { account_id: 'account 7', reason: 'unreadable' },
        { account_id: 'account 8', reason: 'signature_mismatch' },
      ],
    },
  ]);
  await settleCalls([], deps);
  expect(commits).toHaveLength(1);
});

test('a call with more reports than one commit holds is split, after the smaller calls', async () => {
  const { deps, commits } = database();
  await settleCalls([read(2, 600), read(1), read(3), read(4, 255)], deps);
  expect(commits.map(({ reports, begun, done }) => [reports.length, begun, done])).toEqual([
    [2, [], [1, 3]],
    [255, [], [4]],
    [256, [2], []],
    [256, [2], []],
    [88, [], [2]],
  ]);
});

test('once the database refuses a part of a call, its remaining parts are not stored', async () => {
  const { deps, commits, faults } = database(({ begun, reports }) =>
    begun.length > 0 && reports.length > 0 && commits.length > 1 ? refusal('22P05') : undefined,
  );
  const { settled } = await settleCalls([read(2, 1_300), read(1)], deps);
  expect(commits.map(({ reports, begun, done }) => [reports.length, begun, done])).toEqual([
    [1, [], [1]],
    [256, [2], []],
    [0, [], []],
  ]);
  expect(settled.map(({ call, reading }) => [call.id, reading.kind])).toEqual([
    [1, 'read'],
    [2, 'undecided'],
  ]);
  expect(faults).toHaveLength(1);
});

test('a refused commit of forged calls is returned as a fault, and other calls are settled', async () => {
  const { deps } = database(({ refused }) => (refused.length > 0 ? refusal('22P05') : undefined));
  const forged: ReadCall = { ...read(1), reading: { kind: 'forged', reason: 'signature_missing' } };
  const { settled, faults } = await settleCalls([forged, read(2), read(3, 256), read(4, 256)], deps);
  expect(settled.map(({ call }) => call.id)).toEqual([2, 3, 4]);
  expect(faults).toMatchObject([{ code: '22P05' }]);
});

test('calls that the database refuses again after it has stored others are given up', async () => {
  const { deps, commits, faults } = database(({ reports }) =>
    reports.some(({ call_id }) => call_id === 3 || call_id === 6) ? refusal('22P05') : undefined,
  );
  const first = await settleCalls(
    [1, 2, 3, 4, 5, 6, 7].map((id) => read(id)),
    deps,
  );
  expect(doneBy(commits).flat()).toEqual([1, 2, 4, 5, 7]);
  expect(commits.flatMap(({ reports }) => reports.map(({ call_id }) => call_id))).toEqual([1, 2, 4, 5, 7]);
  expect(commits.flatMap(({ again }) => again)).toEqual([
    { id: 3, ms: 1_000, misconfigured: false },
    { id: 6, ms: 1_000, misconfigured: false },
  ]);
  expect(commits.flatMap(({ genuine }) => genuine)).not.toContain('account 3');
  const notRead = (settled: readonly ReadCall[]) =>
    settled.flatMap(({ reading, call }) => (reading.kind === 'read' ? [] : [[call.id, reading.kind]]));
  expect(notRead(first.settled)).toEqual([
    [3, 'undecided'],
    [6, 'undecided'],
  ]);
  commits.length = 0;
  const second = await settleCalls([read(3), read(6)], deps);
  expect(doneBy(commits).flat()).toEqual([3, 6]);
  expect(notRead(second.settled)).toEqual([
    [3, 'unreadable'],
    [6, 'unreadable'],
  ]);
  expect(faults).toHaveLength(4);
});

test.each(['P0001', 'XX002'])(
  'while the database refuses every call (%s), none is given up',
  async (code) => {
    const { deps, commits } = database(({ reports }) => (reports.length > 0 ? refusal(code) : undefined));
    for (let look = 0; look < 3; look += 1) await settleCalls([read(1), read(2)], deps);
    expect(doneBy(commits).flat()).toEqual([]);
    const worn: ReadCall = { ...read(3), call: { ...read(3).call, tries: 3 } };
    await settleCalls([worn], deps);
    expect(doneBy(commits).flat()).toEqual([3]);
  },
);

test('a call that meets damage waits, also if others can be stored', async () => {
  const { deps, commits } = database(({ reports }) =>
    reports.some(({ call_id }) => call_id === 1) ? refusal('XX001') : undefined,
  );
  for (let look = 0; look < 3; look += 1) await settleCalls([read(1), read(look + 2)], deps);
  expect(doneBy(commits).flat()).toEqual([2, 3, 4]);
});

test.each(['57014', '42883'])(
  'a database fault unrelated to any call (%s) gives up no call',
  async (code) => {
    const { deps, faults } = database(() => refusal(code));
    expect(await settleCalls([read(1), read(2)], deps)).toMatchObject({ settled: [], faults: [{ code }] });
    expect(faults).toEqual([]);
  },
);

test("a refusal that persists without the call's reports is returned as a fault", async () => {
  const { deps } = database(() => refusal('22P05'));
  expect(await settleCalls([read(1)], deps)).toMatchObject({ settled: [], faults: [{ code: '22P05' }] });
});
