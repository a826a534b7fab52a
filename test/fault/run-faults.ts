import { randomBytes } from 'node:crypto';
import { cp, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { searchForCanaries, type Canary, type CanarySearch } from '../support/canaries.ts';
import type { Checked } from './check.ts';
import { compareLedgers } from './compare-ledgers.ts';
import { drain, drainDeliveries, drainSilent } from './drain.ts';
import type { Notes } from './faults/fault.ts';
import { startHelper, type HelperProcess } from './helper-process.ts';
import type { LoadCommand, LoadReport, LoadTotals } from './load-process.ts';
import { runNemesis, type NemesisOptions, type Trial } from './nemesis.ts';
import { untilEachReady } from './node.ts';
import { openRig, type Rig } from './rig.ts';
import { endReceiptTimeout } from './tenants.ts';
import { untilUnderLoad } from './until-under-load.ts';
import type { Violation } from './violations.ts';
import { watchOutputs } from './watch-outputs.ts';

export type RunOptions = NemesisOptions & {
  readonly ratePerSecond: number;
  readonly tenants: number;
  /** Folder that keeps the evidence of a failed run. */
  readonly keepIn: string;
};

export type RunResult = {
  readonly seed: number;
  readonly trials: readonly Trial[];
  readonly load: LoadTotals;
  readonly checked: Checked;
  /** Calls of endpoints, including repeated ones. */
  readonly events: number;
  readonly violations: readonly Violation[];
  /** Messages whose provider asked for a retry later than the end of this run. */
  readonly waiting: number;
  readonly loadSeconds: number;
  readonly drainSeconds: number;
  /** Processes that ended without a fault. They are started again, and no guarantee may suffer. */
  readonly crashes: readonly string[];
  readonly searchedBytes: number;
  /** Folder of ledgers and logs, kept where a guarantee was violated. */
  readonly evidence: string | null;
};

type Log = (line: string) => void;

const LAST_MS = 1_000;
const READY_MS_MAX = 60_000;

/** Runs a continuous load, injects the faults one after the other, drains, and compares all ledgers. */
export async function runFaults(options: RunOptions, log: Log): Promise<RunResult> {
  await using rig = await openRig(options.tenants, log);
  const body: Canary = {
    name: 'the body of a message',
    secret: `body${randomBytes(16).toString('hex')}`,
    legal: ['table messages.content'],
  };
  const notes: Notes = { revocations: [], suspensions: [], secrets: [] };
  const services = rig.secrets.map((secret) => ({ name: 'a credential of the services', secret }));
  const canaries = [body, ...rig.tenants.canaries, ...services];
  const passing = searchForCanaries(canaries);
  const ledgers = {
    ledger: join(rig.folder, 'acknowledged.ndjson'),
    cancelLedger: join(rig.folder, 'canceled.ndjson'),
    suppressionLedger: join(rig.folder, 'suppressed.ndjson'),
  };

  const begunAt = Date.now();
  const watch = await watchOutputs(rig, passing);
  const { load, trials } = await breakUnderLoad(
    rig,
    { ...options, ...ledgers, notes, canary: body.secret },
    log,
  );
  const loadedAt = Date.now();
  log(`${load.acknowledged} acknowledged in ${Math.round((loadedAt - begunAt) / 1_000)} s; draining`);
  const unready = await untilEachReady([...rig.apis, ...rig.workers], READY_MS_MAX);
  const decidedBy = await endSilence(rig);
  rig.providers.tell({ kind: 'report', origins: [] });
  const waiting = await drain(rig.ask);
  const undelivered = await drainDeliveries(rig.ask);
  const drainedAt = Date.now();
  const { checked, events, endings } = await compareLedgers(
    rig,
    { ...ledgers, begunAt, decidedBy, notes },
    async () => {
      await watch[Symbol.asyncDispose]();
      return endAll(rig);
    },
  );

  const written = searchForCanaries([...canaries, ...notes.secrets]);
  await searchOutputs(rig, written);
  const violations = [
    ...checked.violations,
    ...endings,
    ...unanswered(load),
    ...unrecovered(trials, unready),
    ...untold(undelivered),
    ...[...passing.hits(), ...written.hits()].map(({ canary, place, form }): Violation => ({
      name: 'canary',
      detail: `${canary} in ${place} (${form})`,
    })),
  ];
  return {
    seed: options.seed,
    trials,
    load,
    checked,
    events,
    violations,
    waiting,
    loadSeconds: (loadedAt - begunAt) / 1_000,
    drainSeconds: (drainedAt - loadedAt) / 1_000,
    crashes: [...rig.apis, ...rig.workers].flatMap(({ service: { name, crashes } }) =>
      crashes.map((how) => `${name}: ${how}`),
    ),
    searchedBytes: passing.bytesSeen() + written.bytesSeen(),
    evidence: violations.length === 0 ? null : await keep(rig, options.keepIn, options.seed),
  };
}

type UnderLoad = RunOptions & {
  readonly notes: Notes;
  readonly ledger: string;
  readonly cancelLedger: string;
  readonly suppressionLedger: string;
  readonly canary: string;
};

async function breakUnderLoad(
  rig: Rig,
  options: UnderLoad,
  log: Log,
): Promise<{ load: LoadTotals; trials: Trial[] }> {
  const { seed, notes, ledger, cancelLedger, suppressionLedger, canary, ratePerSecond } = options;
  await using load: HelperProcess<LoadCommand, LoadReport> = startHelper('load-process.ts');
  const stopped = load.next('stopped');
  load.tell({
    kind: 'start',
    origins: rig.apis.map(({ service }) => service.origin),
    tenants: rig.tenants.all,
    ratePerSecond,
    seed,
    ledger,
    deeds: { cancelLedger, suppressionLedger },
    canary,
  });
  await untilUnderLoad(rig.ask);
  const trials = await runNemesis({ rig, load, notes }, options, (trial) => log(lineOf(trial)));
  await sleep(LAST_MS);
  load.tell({ kind: 'stop' });
  const { totals } = await stopped;
  return { load: totals, trials };
}

/**
 * Waits for the failover of messages whose receipt timeout has passed, then removes the timeout from the routes. The remaining
 * messages stay with their account, so that the run need not wait for them.
 * @returns the time up to which timeouts were decided.
 */
async function endSilence({ ask, insist, tenants }: Rig): Promise<number> {
  const decidedBy = await drainSilent(ask);
  await Promise.all(tenants.waitedFor.map((tenant) => insist((client) => endReceiptTimeout(client, tenant))));
  return decidedBy;
}

async function endAll({ apis, workers }: Rig): Promise<Violation[]> {
  const violations: Violation[] = [];
  for (const { service } of [...apis, ...workers]) {
    const how = await service.end();
    if (how !== 'exit code 0') violations.push({ name: 'end', detail: `${service.name}: ${how}` });
  }
  return violations;
}

function unanswered({ unexpected, undecided }: LoadTotals): Violation[] {
  const late = { name: 'recovery', detail: `${undecided} requests were never answered` } as const;
  const wrong = unexpected.map((detail): Violation => ({ name: 'answers', detail }));
  return undecided === 0 ? wrong : [...wrong, late];
}

function unrecovered(trials: readonly Trial[], inTheEnd: readonly string[]): Violation[] {
  const after = trials.flatMap(({ number, name, unready }) =>
    unready.map((condition) => `not ready after fault ${number} (${name}): ${condition}`),
  );
  return [...after, ...inTheEnd.map((condition) => `not ready in the end: ${condition}`)].map((detail) => ({
    name: 'recovery',
    detail,
  }));
}

function untold(deliveries: number): Violation[] {
  return deliveries === 0 ? [] : [{ name: 'told', detail: `${deliveries} deliveries were left undone` }];
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

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
