/** Everything that a round measures, with the names that reports use. */
export const CONTESTANTS = {
  floor: 'bare fastify + zod, no work behind it',
  floor64: 'the same, 64 connections',
  insertBatch: 'fastify + micro-batched INSERT into one table',
  insertEach: 'fastify + one INSERT per request',
  rows: 'INSERT of 64 rows, 4 connections, no HTTP',
  publish: 'JetStream publish, 256 in flight, no HTTP',
  accept: 'Despatch, worker stopped',
  accept64: 'the same, 64 connections',
  acceptBatch: 'Despatch, batches of 500 messages',
  transaction: 'Despatch with a transaction per request',
  acceptGraphile: 'graphile-worker: message and job per request',
  acceptBoss: 'pg-boss: job per request',
  running: 'Despatch, worker running',
  bare: 'bare pipeline: INSERT, wake-up, call, UPDATE',
  runningGraphile: 'graphile-worker, jobs added in batches',
  runningBoss: 'pg-boss, jobs added in batches',
  drain: 'Despatch',
  drainSnapshot: 'Despatch, an old snapshot held open',
  drainLoop: 'undici loop, no queue',
  drainGraphile: 'graphile-worker, batched, status stored',
  drainGraphileBare: 'graphile-worker, batched, no status',
  drainBoss: 'pg-boss, batched',
  receiptFloor: 'receipts: bare fastify, raw body read, no work behind it',
  receiptIntake: 'receipts: taken in, worker stopped',
  receiptApply: 'receipts: applied from a stored backlog',
  receiptStorm: 'sends beside a storm of receipts to another tenant',
  eventFloor: 'events: undici loop that posts the same bodies',
  eventTell: 'events: endpoints are told of a stored backlog',
  eventSends: 'sends beside endpoints that take all types',
  eventReceipts: 'from a receipt to the endpoint, at half load',
  eventDead: '99 endpoints beside a dead one',
  fairness: 'quiet tenants beside a noisy one',
  memory: 'memory in flight and per tenant',
} as const;

export type ContestantName = keyof typeof CONTESTANTS;

export const CONTESTANT_NAMES = Object.keys(CONTESTANTS) as ContestantName[];

/** Contestants that also run at parts of the rate that the service sustains. */
const PACED: readonly ContestantName[] = [
  'bare',
  'runningGraphile',
  'runningBoss',
  'eventSends',
  'eventReceipts',
];

export function isPaced(name: ContestantName): boolean {
  return PACED.includes(name);
}

/**
 * Names that select several contestants. `receipts` includes the drain that applying is compared with, `events` the run that
 * determines half load, and `batch` the single requests that batches are compared with.
 */
export const CONTESTANT_GROUPS: Readonly<Record<string, readonly ContestantName[]>> = {
  receipts: ['receiptFloor', 'receiptIntake', 'receiptApply', 'receiptStorm', 'drain'],
  batch: ['accept', 'acceptBatch'],
  events: ['running', 'eventFloor', 'eventTell', 'eventSends', 'eventReceipts', 'eventDead'],
};
