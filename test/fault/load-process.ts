// Process that sends messages at a constant rate, whatever becomes of them, as a careful client would: each with an
// idempotency key, tried again until the service has said yes or no. What it was promised goes to the ledger.
import { Agent, request } from 'undici';
import { serveHelper } from './helper-process.ts';
import { openLedger } from './ledger-file.ts';
import type { Acknowledgement } from './ledger.ts';
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
/** Share of requests that are sent twice at once, to both processes. */
const TWINS = 0.02;

const totals = {
  offered: 0,
  acknowledged: 0,
  replayed: 0,
  unavailable: 0,
  unanswered: 0,
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
          void send(start, message, random.next() < TWINS, ledger.append);
        }
      }
      if (stoppedAt !== undefined && waiting === 0) resolve();
      else setTimeout(pump, 2);
    };
    pump();
  });
  ledger.close();
  await agent.destroy();
}

function withAdded(tenant: LoadTenant): LoadTenant {
  const more = added.get(tenant.id);
  return more === undefined ? tenant : { ...tenant, credentials: [...tenant.credentials, ...more] };
}

type Append = (entry: Acknowledgement) => void;

async function send(start: Start, message: LoadMessage, isTwin: boolean, append: Append): Promise<void> {
  waiting++;
  const apis = isTwin ? [message.to, message.to + 1] : [message.to];
  await Promise.all(apis.map((first) => sendUntilAnswered(start, message, first, append)));
  waiting--;
}

async function sendUntilAnswered(
  start: Start,
  message: LoadMessage,
  first: number,
  append: Append,
): Promise<void> {
  for (let turn = first; ; turn++) {
    const origin = start.origins[turn % start.origins.length] as string;
    const askedAt = Date.now();
    const answer = await ask(origin, message);
    if (answer.kind === 'promise') {
      totals.acknowledged++;
      if (answer.isReplay) totals.replayed++;
      const { tenantId, key, token, guarantee, firstAskedAt, credential } = message;
      const entry = { id: answer.id, tenantId, key, token, guarantee, firstAskedAt };
      append({ ...entry, credential: credential.name, askedAt, at: Date.now() });
      countUse(credential.name);
      return;
    }
    if (answer.kind === 'silence') totals.unanswered++;
    else if (answer.status === 503) totals.unavailable++;
    else return refuse(message, answer.status, answer.code);
    if (stoppedAt !== undefined && Date.now() - stoppedAt > PATIENCE_MS) {
      totals.undecided++;
      return;
    }
    const delayMs = Math.min(RETRY_MS.first * 2 ** (turn - first), RETRY_MS.max);
    await new Promise((resolve) => setTimeout(resolve, delayMs * (0.5 + Math.random())));
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
  if (totals.unexpected.length < UNEXPECTED_MAX) totals.unexpected.push(`${reason} for ${message.token}`);
}

type Answer =
  | { readonly kind: 'promise'; readonly id: string; readonly isReplay: boolean }
  /** Nobody knows what became of the request. */
  | { readonly kind: 'silence' }
  | { readonly kind: 'refusal'; readonly status: number; readonly code: string };

async function ask(origin: string, { credential, key, body }: LoadMessage): Promise<Answer> {
  try {
    const answer = await request(`${origin}/v1/messages`, {
      method: 'POST',
      dispatcher: agent,
      headers: {
        'x-service-key': credential.key,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      body,
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    const document = (await answer.body.json()) as { id?: string; code?: string };
    const isReplay = answer.headers['idempotent-replayed'] === 'true';
    if (answer.statusCode === 202) return { kind: 'promise', id: document.id ?? '', isReplay };
    return { kind: 'refusal', status: answer.statusCode, code: document.code ?? '' };
  } catch {
    return { kind: 'silence' };
  }
}
