import { randomBytes } from 'node:crypto';
import { cp, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { searchForCanaries, type Canary, type CanarySearch } from '../support/canaries.ts';
import { createChecker, type Checked, type CheckInput, type ShownMessage, type Violation } from './check.ts';
import type { Notes } from './faults/fault.ts';
import { startHelper } from './helper-process.ts';
import { readLedger, type Acknowledgement, type ProviderCall } from './ledger.ts';
import type { LoadCommand, LoadReport, LoadTotals } from './load-process.ts';
import { runNemesis, type NemesisOptions, type Trial } from './nemesis.ts';
import { eachRecord, unfinished } from './records.ts';
import { openRig, untilAllReady, type Rig } from './rig.ts';
import { watchOutputs } from './watch-outputs.ts';

export type RunOptions = NemesisOptions & {
  readonly ratePerSecond: number;
  readonly tenants: number;
  /** Where the evidence of a failure is kept. */
  readonly keepIn: string;
};

export type RunResult = {
  readonly seed: number;
  readonly trials: readonly Trial[];
  readonly load: LoadTotals;
  readonly checked: Checked;
  readonly violations: readonly Violation[];
  /** Messages that the provider asked to have later than this run would wait. */
  readonly waiting: number;
  readonly loadSeconds: number;
  readonly drainSeconds: number;
  /** Processes that ended by themselves: started again, and nothing may come of it. */
  readonly crashes: readonly string[];
  readonly searchedBytes: number;
  /** Kept where something was violated. */
  readonly evidence: string | null;
};

const DRAIN_MS_MAX = 150_000;
/** Nothing has been finished for this long although it was due. */
const STUCK_MS = 8_000;
const WARM_MS = 1_000;
const DAY_MS = 86_400_000;

/** One continuous load, faults one after the other, a drain, and the comparison of all ledgers. */
export async function runFaults(options: RunOptions, log: (line: string) => void): Promise<RunResult> {
  const { seed, trials, only } = options;
  await using rig = await openRig(options.tenants, log);
  const bodyCanary: Canary = {
    name: 'the body of a message',
    secret: `body${randomBytes(16).toString('hex')}`,
    legal: ['table messages.content'],
  };
  const notes: Notes = { revocations: [], suspensions: [], secrets: [] };
  const known = [
    bodyCanary,
    ...rig.tenants.canaries,
    ...rig.secrets.map((secret) => ({ name: 'a credential of the services', secret })),
  ];
  const passing = searchForCanaries(known);
  const ledger = join(rig.folder, 'acknowledged.ndjson');
  await using load = startHelper<LoadCommand, LoadReport>('load-process.ts');
  const outputs = await watchOutputs(rig, passing);
  const begunAt = Date.now();
  const stopped = load.next('stopped');
  load.tell({
    kind: 'start',
    origins: rig.apis.map(({ service }) => service.origin),
    tenants: rig.tenants.all,
    ratePerSecond: options.ratePerSecond,
    seed,
    ledger,
    canary: bodyCanary.secret,
  });
  await new Promise((resolve) => setTimeout(resolve, WARM_MS));
  const done = await runNemesis({ rig, load, notes }, { trials, only, seed }, (trial) => log(lineOf(trial)));
  await new Promise((resolve) => setTimeout(resolve, WARM_MS));
  load.tell({ kind: 'stop' });
  const { totals } = await stopped;
  const loadEndedAt = Date.now();
  log(`${totals.acknowledged} acknowledged in ${seconds(loadEndedAt - begunAt)} s; draining`);

  const violations: Violation[] = [];
  const nodes = [...rig.apis, ...rig.workers];
  if (!(await untilAllReady(nodes, 30_000)))
    violations.push({ name: 'recovery', detail: 'not all are ready' });
  for (const { number, name, readyMs } of done) {
    if (readyMs === null) violations.push({ name: 'recovery', detail: `fault ${number} (${name})` });
  }
  const waiting = await drain(rig);
  const drainedAt = Date.now();
  const shown = await readSample(rig, ledger);
  await outputs[Symbol.asyncDispose]();
  for (const { service } of nodes) {
    const how = await service.end();
    if (how !== 'exit code 0') violations.push({ name: 'end', detail: `${service.name}: ${how}` });
  }

  const checked = await check(rig, { ledger, begunAt, notes, shown });
  violations.push(...checked.violations);
  for (const detail of totals.unexpected) violations.push({ name: 'answers', detail });
  if (totals.undecided > 0) {
    violations.push({ name: 'recovery', detail: `${totals.undecided} requests were never answered` });
  }
  const written = searchForCanaries([...known, ...notes.secrets]);
  await searchOutputs(rig, written);
  for (const hit of [...passing.hits(), ...written.hits()]) {
    violations.push({ name: 'canary', detail: `${hit.canary} in ${hit.place} (${hit.form})` });
  }
  const evidence = violations.length === 0 ? null : await keep(rig, options.keepIn, seed);
  return {
    seed,
    trials: done,
    load: totals,
    checked,
    violations,
    waiting,
    loadSeconds: (loadEndedAt - begunAt) / 1_000,
    drainSeconds: (drainedAt - loadEndedAt) / 1_000,
    crashes: nodes.flatMap(({ service }) => service.crashes.map((how) => `${service.name}: ${how}`)),
    searchedBytes: passing.bytesSeen() + written.bytesSeen(),
    evidence,
  };
}

/** Waits until nothing is left to do, or what is left does not move any more. @returns how many still wait for their time. */
async function drain({ ask }: Rig): Promise<number> {
  const deadline = Date.now() + DRAIN_MS_MAX;
  let least = Number.POSITIVE_INFINITY;
  let leastAt = Date.now();
  for (;;) {
    const { open, waiting, overdue } = await ask(unfinished);
    if (open < least) [least, leastAt] = [open, Date.now()];
    const isStuck = overdue > 0 && Date.now() - leastAt > STUCK_MS;
    if (open === 0 || isStuck || Date.now() > deadline) return waiting;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

type Shown = CheckInput['shown'];

const SAMPLE_MAX = 200;

/** What the public api says of some of the messages that it has promised. */
async function readSample({ insist, tenants }: Rig, ledger: string): Promise<Shown> {
  const promises = await readLedger<Acknowledgement>(ledger);
  const step = Math.max(1, Math.floor(promises.length / SAMPLE_MAX));
  const keys = new Map(tenants.all.map(({ id, credentials }) => [id, credentials[0]?.key ?? '']));
  const shown = new Map<string, ShownMessage>();
  for (const { id, tenantId } of promises.filter((_, i) => i % step === 0)) {
    const caller = { serviceKey: keys.get(tenantId) ?? '' };
    // The suspended tenant may be one that nobody has resumed yet.
    if (tenantId === tenants.suspended.id) continue;
    const message = await insist((client) => client.call<ShownMessage>(caller, 'GET', `/v1/messages/${id}`));
    // One that waits for its time may have come to its end by when the database is asked.
    if (message.status !== 'deferred') shown.set(id, message);
  }
  return shown;
}

async function check(
  { ask, providerLedger, tenants }: Rig,
  { ledger, begunAt, notes, shown }: { ledger: string; begunAt: number; notes: Notes; shown: Shown },
): Promise<Checked> {
  const checker = createChecker({
    acknowledgements: await readLedger<Acknowledgement>(ledger),
    calls: await readLedger<ProviderCall>(providerLedger),
    limits: {
      daily: { tenantId: tenants.limited.id, max: tenants.perDay },
      days: Math.floor(Date.now() / DAY_MS) - Math.floor(begunAt / DAY_MS) + 1,
      perMinute: { tenantId: tenants.slow.id, max: tenants.perMinute },
    },
    shown,
    ...notes,
  });
  await ask((sql) => eachRecord(sql, checker.visit));
  return checker.conclude();
}

async function searchOutputs(rig: Rig, search: CanarySearch): Promise<void> {
  for (const { service } of [...rig.apis, ...rig.workers]) {
    await search.inFile(`log of ${service.name}`, service.logFile);
  }
  await search.inFile('log of postgres', join(rig.postgres.dir, 'server.log'));
  await search.inFile('log of nats', join(rig.nats.storeDir, '..', 'server.log'));
  for (const body of rig.traces.bodies()) search.inText('traces', body);
  await rig.ask((sql) => search.inTables(sql, 'despatch'));
}

async function keep(rig: Rig, keepIn: string, seed: number): Promise<string> {
  const folder = join(keepIn, `fault-${seed}`);
  await rm(folder, { recursive: true, force: true });
  await mkdir(keepIn, { recursive: true });
  await cp(rig.folder, folder, { recursive: true });
  await cp(join(rig.postgres.dir, 'server.log'), join(folder, 'postgres.log'));
  return folder;
}

function lineOf({ number, name, target, seed, offsetMs, notRun, readyMs }: Trial): string {
  const what = notRun === undefined ? target : `NOT RUN: ${notRun}`;
  const ready = readyMs === null ? 'never ready again' : `ready after ${readyMs} ms`;
  return `${String(number).padStart(4)}  ${name}  ${what}  seed ${seed}  offset ${offsetMs} ms  ${ready}`;
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1);
}
