// Process that sends messages at a constant rate, whatever becomes of them, as a careful client would: each with an
// idempotency key, tried again until the service has said yes or no. What it was promised goes to the ledger.
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { serveHelper } from './helper-process.ts';
import { openLedger } from './ledger-file.ts';
import type { Acknowledgement, Cancellation } from './ledger.ts';
import { newMessage, type Credential, type LoadMessage, type LoadTenant } from './load-message.ts';
import { seededRandom } from './random.ts';

export type LoadCommand =
  | {
      readonly kind: 'start';
      readonly origins: readonly string[];
      readonly tenants: readonly LoadTenant[];
      readonly ratePerSecond: number;
      readonly seed: number;
      readonly ledger: string;
      /** Of messages that were canceled; null: none is. */
      readonly cancelLedger: string | null;
      /** Text that every body holds, to be searched for where it must not be. */
      readonly canary: string;
    }
  | { readonly kind: 'credential'; readonly tenantId: string; readonly credential: Credential }
  /** No new messages; those under way are still tried for. */
  | { readonly kind: 'stop' };

export type LoadTotals = {
  readonly offered: number;
  readonly acknowledged: number;
  /** Replays of an earlier answer: the client had not seen it. */
  readonly replayed: number;
  readonly unavailable: number;
  readonly unanswered: number;
  /** Messages that were canceled, and those that it was too late for. */
  readonly canceled: number;
  readonly notCanceled: number;
  /** Final refusals by status and code. */
  readonly refused: Readonly<Record<string, number>>;
  /** Messages never sent, because too many were waiting already. */
  readonly shed: number;
  /** Given up without an answer after the load had ended. */
  readonly undecided: number;
  /** Answers that no fault excuses. */
  readonly unexpected: readonly string[];
};

export type LoadReport =
  /** A credential that was added has been taken several times. */
  { readonly kind: 'used' } | { readonly kind: 'stopped'; readonly totals: LoadTotals };

type Start = Extract<LoadCommand, { kind: 'start' }>;

const WAITING_MAX = 4_000;
const ANSWER_MS_MAX = 10_000;
/** Between two tries of one request: doubled each time, and spread, so that clients do not come back in step. */
const RETRY_MS = { first: 100, max: 2_000 };
/** How long the last messages are tried for after the load has ended. */
const PATIENCE_MS = 30_000;
const UNEXPECTED_MAX = 20;
/** Enough for each process to have seen it. */
const USES = 6;
/** Share of messages that are canceled: half of these as soon as they are acknowledged, the others a little later. */
const CANCELS = 0.1;
const CANCEL_AFTER_MS_MAX = 1_500;
/** Share of requests that are sent twice at once, to both processes. */
const TWINS = 0.02;

const totals = {
  offered: 0,
  acknowledged: 0,
  replayed: 0,
  unavailable: 0,
  unanswered: 0,
  canceled: 0,
  notCanceled: 0,
  refused: {} as Record<string, number>,
  shed: 0,
  undecided: 0,
  unexpected: [] as string[],
};
const agent = new Agent({
  connections: 64,
  pipelining: 1,
  headersTimeout: ANSWER_MS_MAX,
  bodyTimeout: ANSWER_MS_MAX,
});
const added = new Map<string, Credential[]>();
/** How often each of them is still to be taken until that is told. */
const unused = new Map<string, number>();
let waiting = 0;
let stoppedAt: number | undefined;

const report = serveHelper<LoadCommand, LoadReport>((command) => {
  if (command.kind === 'credential') {
    unused.set(command.credential.name, USES);
    added.set(command.tenantId, [...(added.get(command.tenantId) ?? []), command.credential]);
  } else if (command.kind === 'stop') {
    stoppedAt = Date.now();
  } else {
    void run(command).then(() => report({ kind: 'stopped', totals }));
  }
});

async function run(start: Start): Promise<void> {
  const ledger = openLedger(start.ledger);
  const cancels = start.cancelLedger === null ? null : openLedger(start.cancelLedger);
  const written: Ledgers = { promised: ledger.append, canceled: cancels?.append ?? (() => {}) };
  const random = seededRandom(start.seed);
  const lots = start.tenants.flatMap((tenant) => Array.from({ length: tenant.weight }, () => tenant));
  const begin = performance.now();
  const stepMs = 1_000 / start.ratePerSecond;
  await new Promise<void>((resolve) => {
    const pump = (): void => {
      const due = stoppedAt === undefined ? Math.floor((performance.now() - begin) / stepMs) : 0;
      while (totals.offered < due) {
        totals.offered++;
        if (waiting >= WAITING_MAX) {
          totals.shed++;
          continue;
        }
        const tenant = random.pick(lots);
        for (let i = 0; i < tenant.burst; i++) {
          const message = newMessage(withAdded(tenant), random, i, start.canary);
          const isTwin = random.next() < TWINS;
          const cancelAfterMs =
            cancels !== null && random.next() < CANCELS
              ? Math.max(0, random.whole(-CANCEL_AFTER_MS_MAX, CANCEL_AFTER_MS_MAX))
              : null;
          void send(start, message, { isTwin, cancelAfterMs }, written);
        }
      }
      if (stoppedAt !== undefined && waiting === 0) resolve();
      else setTimeout(pump, 2);
    };
    pump();
  });
  ledger.close();
  cancels?.close();
  await agent.destroy();
}

function withAdded(tenant: LoadTenant): LoadTenant {
  const more = added.get(tenant.id);
  return more === undefined ? tenant : { ...tenant, credentials: [...tenant.credentials, ...more] };
}

type Append<Entry> = (entry: Entry) => void;
type Ledgers = { readonly promised: Append<Acknowledgement>; readonly canceled: Append<Cancellation> };
type How = { readonly isTwin: boolean; readonly cancelAfterMs: number | null };

async function send(
  start: Start,
  message: LoadMessage,
  { isTwin, cancelAfterMs }: How,
  { promised, canceled }: Ledgers,
): Promise<void> {
  waiting++;
  const apis = isTwin ? [message.to, message.to + 1] : [message.to];
  const ids = await Promise.all(apis.map((first) => sendUntilAnswered(start, message, first, promised)));
  const [id] = ids.filter((one) => one !== null);
  if (id !== undefined && cancelAfterMs !== null) {
    await sleep(cancelAfterMs);
    await cancelUntilAnswered(start, message, id, canceled);
  }
  waiting--;
}

/** A cancel is repeated until it is answered: what was canceled by one that was not is canceled still. */
async function cancelUntilAnswered(
  start: Start,
  { token, tenant, credential, to }: LoadMessage,
  id: string,
  append: Append<Cancellation>,
): Promise<void> {
  for (let turn = to + 1; ; turn++) {
    const origin = start.origins[turn % start.origins.length] as string;
    const askedAt = Date.now();
    const answer = await askFor(`${origin}/v1/messages/${id}/cancel`, credential);
    if (answer?.status === 200) {
      totals.canceled++;
      return append({ token, askedAt, at: Date.now() });
    }
    if (answer !== null && answer.status !== 503) {
      const reason = `${answer.status} ${answer.code}`;
      if (answer.code === 'not_cancelable') totals.notCanceled++;
      else if (!tenant.expects.includes(answer.code)) unexpected(`${reason} for the cancel of ${token}`);
      return;
    }
    if (stoppedAt !== undefined && Date.now() - stoppedAt > PATIENCE_MS) {
      totals.undecided++;
      return append({ token, askedAt, at: null });
    }
    await sleep(delayMs(turn - to - 1));
  }
}

function delayMs(failed: number): number {
  return Math.min(RETRY_MS.first * 2 ** failed, RETRY_MS.max) * (0.5 + Math.random());
}

/** @returns the promised message's id; null where it was refused, or nobody knows. */
async function sendUntilAnswered(
  start: Start,
  message: LoadMessage,
  first: number,
  append: Append<Acknowledgement>,
): Promise<string | null> {
  for (let turn = first; ; turn++) {
    const origin = start.origins[turn % start.origins.length] as string;
    const askedAt = Date.now();
    const answer = await ask(origin, message);
    if (answer.kind === 'promise') {
      totals.acknowledged++;
      if (answer.isReplay) totals.replayed++;
      const { tenantId, key, token, guarantee, sendAt, firstAskedAt, credential } = message;
      const entry = { id: answer.id, tenantId, key, token, guarantee, sendAt, firstAskedAt };
      append({ ...entry, credential: credential.name, askedAt, at: Date.now() });
      countUse(credential.name);
      return answer.id;
    }
    if (answer.kind === 'silence') totals.unanswered++;
    else if (answer.status === 503) totals.unavailable++;
    else {
      refuse(message, answer.status, answer.code);
      return null;
    }
    if (stoppedAt !== undefined && Date.now() - stoppedAt > PATIENCE_MS) {
      totals.undecided++;
      return null;
    }
    await sleep(delayMs(turn - first));
  }
}

function countUse(name: string): void {
  const left = unused.get(name);
  if (left === undefined) return;
  unused.set(name, left - 1);
  if (left === 1) report({ kind: 'used' });
}

function refuse(message: LoadMessage, status: number, code: string): void {
  const reason = `${status} ${code}`;
  totals.refused[reason] = (totals.refused[reason] ?? 0) + 1;
  if (message.tenant.expects.includes(code)) return;
  unexpected(`${reason} for ${message.token}`);
}

function unexpected(what: string): void {
  if (totals.unexpected.length < UNEXPECTED_MAX) totals.unexpected.push(what);
}

type Answer =
  | { readonly kind: 'promise'; readonly id: string; readonly isReplay: boolean }
  /** Nobody knows what became of the request. */
  | { readonly kind: 'silence' }
  | { readonly kind: 'refusal'; readonly status: number; readonly code: string };

async function ask(origin: string, { credential, key, body }: LoadMessage): Promise<Answer> {
  const answer = await askFor(`${origin}/v1/messages`, credential, {
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body,
  });
  if (answer === null) return { kind: 'silence' };
  const { status, id, code, isReplay } = answer;
  return status === 202 ? { kind: 'promise', id, isReplay } : { kind: 'refusal', status, code };
}

/** @returns null where nobody knows what became of the request. */
async function askFor(
  url: string,
  { key }: Credential,
  { headers = {}, body }: { readonly headers?: Record<string, string>; readonly body?: string } = {},
) {
  try {
    const answer = await request(url, {
      method: 'POST',
      dispatcher: agent,
      headers: { 'x-service-key': key, ...headers },
      ...(body === undefined ? {} : { body }),
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    const document = (await answer.body.json()) as { id?: string; code?: string };
    const isReplay = answer.headers['idempotent-replayed'] === 'true';
    return { status: answer.statusCode, id: document.id ?? '', code: document.code ?? '', isReplay };
  } catch {
    return null;
  }
}
