import type { Mutant } from '../support/mutant.ts';
import type { ViolationName } from './violations.ts';

/** A broken variant of the service, and the violation that the suite must find in it. */
export type FaultMutant = Mutant & {
  /** The fault that exposes it. */
  readonly fault: string;
  readonly expected: ViolationName;
  /**
   * Mutants with the same number share a copy of the tree and a run: each causes a violation of its own, and none hides another.
   */
  readonly tree: number;
};

const IS_WAITING = /\w\.status in \('queued', 'deferred'\)/;

export const MUTANTS: readonly FaultMutant[] = [
  {
    name: '202 before the commit',
    changes: {
      'commit-before-202': [
        /await (batch\.add\(.*\));/,
        `{ verdict: 'accepted' as const, response: null, retryAfter: null, remaining: 1 };
        void $1.catch(() => {});`,
      ],
    },
    fault: 'kill-api-before-accept',
    expected: 'lost',
    tree: 1,
  },
  {
    name: 'a receipt answered before the commit',
    changes: {
      'receipt-before-commit': [
        /await (batch\.add\(.*\));/,
        `'stored' as const;
        void $1.catch(() => {});`,
      ],
    },
    fault: 'kill-api-before-receipt',
    expected: 'receipts',
    tree: 1,
  },
  {
    name: 'receipts without a rank',
    changes: {
      'receipt-rank': [/nextStatus\(.*\)/, 'state'],
      'receipt-moves': [/ and \(.*\)/, ''],
    },
    fault: 'nats-connections-reset',
    expected: 'moves',
    tree: 5,
  },
  {
    name: 'a worker known by its host name alone',
    changes: { 'process-name': [/newProcessName\((.*)\)/, '$1'] },
    fault: 'restart-worker-claim-lost',
    expected: 'duplicate',
    tree: 6,
  },
  {
    name: 'a claim without compare-and-set',
    changes: {
      'claim-named': [IS_WAITING, 'true'],
      'claim-due': [IS_WAITING, 'true'],
      'begin-attempt': [/ and may_move\(l\.status, 'sending'\)/, ''],
    },
    fault: 'stop-worker-over-sweep',
    expected: 'duplicate',
    tree: 2,
  },
  {
    name: 'a cancel that does not fence a claim',
    changes: {
      'cancel-claim': [/move_messages\(waiting, 'canceled', null\)/, 'count(*) from unnest(waiting)'],
      'cancel-answer': [/assertCanceled\((\w+)\)/, '$1'],
    },
    fault: 'nats-connections-reset',
    expected: 'canceled',
    tree: 6,
  },
  {
    name: 'failover after an ambiguous call',
    changes: {
      'ambiguous-stays': [
        /\.\.\.ambiguity\((.*)\) \}/,
        `...(elsewhere({ kind: 'rejected_transient', failure: { ...outcome.failure, class: 'provider_unavailable' } }, message, now, random)
          ?? ambiguity($1)) }`,
      ],
      'ambiguous-facts': [
        /outcome\.kind !== 'rejected_permanent' && outcome\.kind !== 'rejected_transient'/,
        'outcome.failure === undefined',
      ],
    },
    fault: 'first-account-reset',
    expected: 'failover',
    tree: 3,
  },
  {
    name: 'one call at most, and one more for want of a receipt',
    changes: {
      'once-waiting': [/deliveryGuarantee === 'at_least_once'/, 'true'],
      'once-settled': [/deliveryGuarantee === 'at_least_once'/, 'true'],
      'silent-once': 'delete',
    },
    fault: 'kill-api-before-receipt',
    expected: 'at_most_once',
    tree: 1,
  },
  {
    name: 'failover for want of a receipt that has come',
    changes: {
      'silent-status': 'delete',
      'silent-heard': [/message\.final.*(?=;)/, 'true'],
      'silent-move': [/ and may_move\(s\.status, 'queued'\)/, ''],
    },
    fault: 'key-revoked',
    expected: 'heard',
    tree: 2,
  },
  {
    name: 'a batch counted once',
    changes: { 'counted-each': [/sum\(a\.calls\)/, 'count(*)'] },
    fault: 'nats-connections-reset',
    expected: 'quota',
    tree: 4,
  },
  {
    name: 'suppressions that no attempt looks for',
    changes: { 'suppressed-claim': [/suppressions_now s/, '(select * from suppressions_now where false) s'] },
    fault: 'nats-connections-reset',
    expected: 'suppressed',
    tree: 4,
  },
  {
    name: 'no sweep',
    changes: { sweep: [/await looks\.dueLanes\(\)/, '[]'] },
    fault: 'nats-store-lost',
    expected: 'lost',
    tree: 3,
  },
  {
    name: 'calls of a dead worker queued again',
    changes: { 'lost-call': [/WORKER_LOST/, "{ kind: 'not_started', reason: 'shutdown' }"] },
    fault: 'kill-worker-bytes-left',
    expected: 'duplicate',
    tree: 4,
  },
  {
    name: 'a quota that is read and then written',
    changes: { 'quota-lock': 'delete' },
    fault: 'key-revoked',
    expected: 'quota',
    tree: 2,
  },
  {
    name: 'keys remembered for ever',
    changes: { 'fresh-copies': [/= .*;/, '= 3_600_000;'], 'dropped-copies': 'delete' },
    fault: 'key-revoked',
    expected: 'revocation',
    tree: 2,
  },
  {
    name: 'idempotency keys forgotten',
    changes: { 'idempotency-scope': [/: .*,/, ': null,'] },
    fault: 'nats-connections-reset',
    expected: 'idempotency',
    tree: 5,
  },
  {
    name: 'a change without its event',
    changes: { 'feed-change': 'delete' },
    fault: 'nats-connections-reset',
    expected: 'feed',
    tree: 3,
  },
  {
    name: 'what is not committed yet passed over by the numbering',
    changes: {
      'feed-snapshot': [
        /pg_snapshot_xip\(before\.done\) x \(xid\)/,
        '(select null::xid8 where false) x (xid)',
      ],
    },
    fault: 'nats-connections-reset',
    expected: 'feed',
    tree: 4,
  },
  {
    name: 'events matched by whoever comes',
    changes: { 'matched-once': [/r\.matched_to = m\.expected/, 'true'] },
    fault: 'receiver-unavailable',
    expected: 'endpoint_feed',
    tree: 6,
  },
  {
    name: 'a failed delivery forgotten',
    changes: { 'called-again': [/json_to_recordset\(o\.again\)/, "json_to_recordset('[]')"] },
    fault: 'receiver-unavailable',
    expected: 'told',
    tree: 1,
  },
  {
    name: 'a text in the log',
    changes: { 'attempt-line': [/line = \{/, '$& note: JSON.stringify(message.content),'] },
    fault: 'nats-connections-reset',
    expected: 'canary',
    tree: 6,
  },
  {
    name: 'commits that nobody syncs',
    changes: { 'synced-commits': [/'on'/, "'off'"] },
    fault: 'postgres-power-lost',
    expected: 'lost',
    tree: 5,
  },
];
