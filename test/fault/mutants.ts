import type { Mutant } from '../support/mutant-tree.ts';
import type { ViolationName } from './violations.ts';

/** A broken variant of the service, and what must be noticed of it. */
export type FaultMutant = {
  readonly name: string;
  readonly patches: readonly Omit<Mutant, 'name'>[];
  /** The fault that brings it to light. */
  readonly fault: string;
  readonly expected: ViolationName;
  /** Mutants of one number share a tree and a run: each has a violation of its own, and none hides another. */
  readonly tree: number;
};

const FUNCTIONS = 'services/core/store/functions';

export const MUTANTS: readonly FaultMutant[] = [
  {
    name: '202 before the commit',
    patches: [
      {
        file: 'services/api/messages/accept-batcher.ts',
        find: 'const settled = await batch.add({ row, bytes });',
        replace: `void batch.add({ row, bytes }).catch(() => {});
        const settled: Settled = {
          verdict: { verdict: 'accepted', response: null, retryAfter: null, remaining: 1 },
        };`,
      },
    ],
    fault: 'kill-api-before-accept',
    expected: 'lost',
    tree: 1,
  },
  {
    name: 'a worker known by its host name alone',
    patches: [
      {
        file: 'services/worker/build-worker.ts',
        find: 'const identity = newProcessName(settings.name);',
        replace: 'const identity = settings.name;',
      },
    ],
    fault: 'restart-worker-claim-lost',
    expected: 'duplicate',
    tree: 6,
  },
  {
    name: 'a claim without compare-and-set',
    patches: [
      {
        file: `${FUNCTIONS}/claim.sql`,
        find: "l.status in ('queued', 'deferred')",
        replace: 'true',
      },
      {
        file: `${FUNCTIONS}/claim_due.sql`,
        find: "and l.status in ('queued', 'deferred')",
        replace: '',
      },
      {
        file: `${FUNCTIONS}/claim_due.sql`,
        find: "where l.status in ('queued', 'deferred')",
        replace: '',
      },
      {
        file: `${FUNCTIONS}/begin_attempts.sql`,
        find: " and may_move(l.status, 'sending')",
        replace: '',
      },
    ],
    fault: 'stop-worker-over-sweep',
    expected: 'duplicate',
    tree: 2,
  },
  {
    name: 'no sweep',
    patches: [
      {
        file: 'services/worker/claim/sweep.ts',
        find: 'const found = await store.dueLanes();',
        replace: 'const found = (await store.dueLanes()).slice(0, 0);',
      },
    ],
    fault: 'nats-store-lost',
    expected: 'lost',
    tree: 3,
  },
  {
    name: 'calls of a dead worker queued again',
    patches: [
      {
        file: 'services/worker/deliver/attempts.ts',
        find: '{ outcome: WORKER_LOST, provider: undefined }',
        replace: "{ outcome: { kind: 'not_started', reason: 'shutdown' }, provider: undefined }",
      },
    ],
    fault: 'kill-worker-bytes-left',
    expected: 'duplicate',
    tree: 4,
  },
  {
    name: 'a quota that is read and then written',
    patches: [
      {
        file: `${FUNCTIONS}/accept.sql`,
        find: 'order by x.tenant_id for update',
        replace: 'order by x.tenant_id',
      },
    ],
    fault: 'key-revoked',
    expected: 'quota',
    tree: 2,
  },
  {
    name: 'keys remembered for ever',
    patches: [
      {
        file: 'services/api/auth/fresh-cache.ts',
        find: 'const FRESH_MS = 5_000;',
        replace: 'const FRESH_MS = 3_600_000;',
      },
      {
        file: 'services/api/auth/fresh-cache.ts',
        find: 'if (matches(value)) values.delete(key);',
        replace: 'matches(value);',
      },
    ],
    fault: 'key-revoked',
    expected: 'revocation',
    tree: 2,
  },
  {
    name: 'idempotency keys forgotten',
    patches: [
      {
        file: 'services/api/messages/new-message.ts',
        find: "scope: claim?.scope.toString('hex') ?? null,",
        replace: 'scope: null,',
      },
    ],
    fault: 'nats-connections-reset',
    expected: 'idempotency',
    tree: 5,
  },
  {
    name: 'a text in the log',
    patches: [
      {
        file: 'services/worker/events.ts',
        find: '        providerId: message.accountId,\n',
        replace: '        providerId: message.accountId,\n        note: JSON.stringify(message.content),\n',
      },
    ],
    fault: 'nats-connections-reset',
    expected: 'canary',
    tree: 6,
  },
  {
    name: 'commits that nobody syncs',
    patches: [
      {
        file: 'services/core/platform/postgres/postgres.ts',
        find: "search_path: 'despatch',",
        replace: "search_path: 'despatch',\n      synchronous_commit: 'off',",
      },
    ],
    fault: 'postgres-power-lost',
    expected: 'lost',
    tree: 5,
  },
];
