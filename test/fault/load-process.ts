// Sends messages at a constant rate that does not depend on the answers, as a careful client does: each has an idempotency key
// and is retried until the service accepts or refuses it. The ledger records every acknowledgement.
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { serveHelper } from './helper-process.ts';
import { openLedger } from './ledger-file.ts';
import type { Acknowledgement, Cancellation, Suppression } from './ledger.ts';
import {
  newMessage,
  ownRecipient,
  type Credential,
  type LoadMessage,
  type LoadTenant,
} from './load-message.ts';
import { seededRandom, type Random } from './random.ts';

export type LoadCommand =
  | {
      readonly kind: 'start';
      readonly origins: readonly string[];
      readonly tenants: readonly LoadTenant[];
      readonly ratePerSecond: number;
      readonly seed: number;
      readonly ledger: string;
      /**
       * Enables cancels, suppressions and batches, with the ledgers of the first two; null: the load only sends single messages.
       */
      readonly deeds: { readonly cancelLedger: string; readonly suppressionLedger: string } | null;
      /** Text that every body contains; the suite searches for it where it must not appear. */
      readonly canary: string;
    }
  | { readonly kind: 'credential'; readonly tenantId: string; readonly credential: Credential }
  /** Ends new messages; those in progress are still retried. */
  | { readonly kind: 'stop' };

export type LoadTotals = {
  readonly offered: number;
  readonly acknowledged: number;
  /** Replays of an earlier answer that the client had not received. */
  readonly replayed: number;
  readonly unavailable: number;
  readonly unanswered: number;
  /** Messages that were canceled, and those for which the cancel came too late. */
  readonly canceled: number;
  readonly notCanceled: number;
  /** Recipients that were suppressed. */
  readonly suppressed: number;
  /** Final refusals by status and code. */
  readonly refused: Readonly<Record<string, number>>;
  /** Messages never sent, because too many others were waiting for an answer. */
  readonly shed: number;
  /** Given up without an answer after the load ended. */
  readonly undecided: number;
  /** Answers that no fault explains. */
  readonly unexpected: readonly string[];
};

export type LoadReport =
  /** `used`: a credential that was added has been accepted several times. */
  { readonly kind: 'used' } | { readonly kind: 'stopped'; readonly totals: LoadTotals };

type Start = Extract<LoadCommand, { kind: 'start' }>;

/** The load sheds messages once this many seconds of it wait for answers, because the machine cannot serve them. */
const WAITING_SECONDS_MAX = 10;
const ANSWER_MS_MAX = 10_000;
/** Backoff between two tries of one request: doubled each time, with jitter, so that clients do not retry in step. */
const RETRY_MS = { first: 100, max: 2_000 };
/** How long requests are retried after the load has ended, measured from the last final answer to any of them. */
const PATIENCE_MS = 30_000;
const UNEXPECTED_MAX = 20;
/** Enough uses for each process to have cached the credential. */
const USES = 6;
/** Share of messages that are canceled: half of these as soon as they are acknowledged, the others a little later. */
const CANCELS = 0.1;
/** Share of messages with a recipient of their own, who is suppressed after the acknowledgement; a second message follows. */
const SUPPRESSIONS = 0.03;
const DEED_AFTER_MS_MAX = 1_500;
/** Share of requests that are batches. */
const BATCHES = 0.03;
const BATCH_SIZE = { min: 2, max: 8 };
/** Share of requests that are sent twice at once, to both api processes. */
const TWINS = 0.02;

const totals = {
  offered: 0,
  acknowledged: 0,
  replayed: 0,
  unavailable: 0,
  unanswered: 0,
  canceled: 0,
  notCanceled: 0,
  suppressed: 0,
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
/** Remaining uses of each credential before `used` is reported. */
const unused = new Map<string, number>();
let waiting = 0;
let recipients = 0;
let isStopped = false;
/** When a request last got a final answer, or the load was stopped. */
let decidedAt = 0;

const report = serveHelper<LoadCommand, LoadReport>((command) => {
  if (command.kind === 'credential') {
    unused.set(command.credential.name, USES);
    added.set(command.tenantId, [...(added.get(command.tenantId) ?? []), command.credential]);
  } else if (command.kind === 'stop') {
    isStopped = true;
    decidedAt = Date.now();
  } else {
    void run(command).then(() => report({ kind: 'stopped', totals }));
  }
});

async function run(start: Start): Promise<void> {
  const ledger = openLedger(start.ledger);
  const cancels = start.deeds === null ? null : openLedger(start.deeds.cancelLedger);
  const suppressions = start.deeds === null ? null : openLedger(start.deeds.suppressionLedger);
  const written: Ledgers = {
    promised: ledger.append,
    canceled: cancels?.append ?? (() => {}),
    suppressed: suppressions?.append ?? (() => {}),
  };
  const random = seededRandom(start.seed);
  const lots = start.tenants.flatMap((tenant) => Array.from({ length: tenant.weight }, () => tenant));
  const begin = performance.now();
  const stepMs = 1_000 / start.ratePerSecond;
  const waitingMax = WAITING_SECONDS_MAX * start.ratePerSecond;
  await new Promise<void>((resolve) => {
    const pump = (): void => {
      const due = isStopped ? 0 : Math.floor((performance.now() - begin) / stepMs);
      while (totals.offered < due) {
        totals.offered++;
        if (waiting >= waitingMax) totals.shed++;
        else sendNext(start, withAdded(random.pick(lots)), random, written);
      }
      if (isStopped && waiting === 0) resolve();
      else setTimeout(pump, 2);
    };
    pump();
  });
  ledger.close();
  cancels?.close();
  suppressions?.close();
  await agent.destroy();
}

function withAdded(tenant: LoadTenant): LoadTenant {
  const more = added.get(tenant.id);
  return more === undefined ? tenant : { ...tenant, credentials: [...tenant.credentials, ...more] };
}

type Append<Entry> = (entry: Entry) => void;
type Ledgers = {
  readonly promised: Append<Acknowledgement>;
  readonly canceled: Append<Cancellation>;
  readonly suppressed: Append<Suppression>;
};
/** What follows the acknowledgement of a message, after `afterMs`: nothing, a cancel, or the suppression of its recipient. */
type Deed = { readonly kind: 'none' } | { readonly kind: 'cancel' | 'suppress'; readonly afterMs: number };

/** Sends the tenant's next message, burst or batch. */
function sendNext(start: Start, tenant: LoadTenant, random: Random, written: Ledgers): void {
  const { canary, deeds } = start;
  if (deeds !== null && random.next() < BATCHES) {
    const size = random.whole(BATCH_SIZE.min, BATCH_SIZE.max);
    totals.offered += size - 1;
    // A batch is one request, so all of its messages share one key.
    const sender = { ...tenant, credentials: [random.pick(tenant.credentials)] };
    const messages = Array.from({ length: size }, () => newMessage(sender, random, 0, canary));
    void counted(sendBatch(start, messages, written));
    return;
  }
  for (let i = 0; i < tenant.burst; i++) {
    const deed: Deed = deeds === null ? { kind: 'none' } : drawDeed(random);
    const recipient = deed.kind === 'suppress' ? ownRecipient(tenant, random, (recipients += 1)) : undefined;
    const message = newMessage(tenant, random, i, canary, recipient);
    const isTwin = random.next() < TWINS;
    const next = recipient && newMessage(tenant, random, i, canary, recipient);
    void counted(send(start, message, { isTwin, deed, next }, written));
  }
}

function drawDeed(random: Random): Deed {
  const drawn = random.next();
  const afterMs = Math.max(0, random.whole(-DEED_AFTER_MS_MAX, DEED_AFTER_MS_MAX));
  if (drawn < CANCELS) return { kind: 'cancel', afterMs };
  return drawn < CANCELS + SUPPRESSIONS ? { kind: 'suppress', afterMs } : { kind: 'none' };
}

async function counted(work: Promise<void>): Promise<void> {
  waiting++;
  await work;
  waiting--;
}

type How = {
  readonly isTwin: boolean;
  readonly deed: Deed;
  /** A second message to the same recipient, sent after the recipient was suppressed. */
  readonly next: LoadMessage | undefined;
};

async function send(
  start: Start,
  message: LoadMessage,
  { isTwin, deed, next }: How,
  written: Ledgers,
): Promise<void> {
  const apis = isTwin ? [message.to, message.to + 1] : [message.to];
  const ids = await Promise.all(
    apis.map((first) => sendUntilAnswered(start, message, first, written.promised)),
  );
  const [id] = ids.filter((one) => one !== null);
  if (id === undefined || deed.kind === 'none') return;
  await sleep(deed.afterMs);
  if (deed.kind === 'cancel') return cancelUntilAnswered(start, message, id, written.canceled);
  const { owner } = message.tenant;
  const wish = owner && (await suppressUntilAnswered(start, message, owner));
  if (wish === null) return;
  written.suppressed({ token: message.token, ...wish });
  if (next === undefined) return;
  written.suppressed({ token: next.token, ...wish });
  await sendUntilAnswered(start, next, next.to, written.promised);
}

/** Sends a batch. Each accepted message counts as acknowledged, as a message sent alone does. */
async function sendBatch(
  start: Start,
  messages: readonly LoadMessage[],
  { promised }: Ledgers,
): Promise<void> {
  const [head] = messages;
  if (head === undefined) return;
  const body = JSON.stringify({ messages: messages.map(({ fields }) => fields) });
  const headers = { 'x-service-key': head.credential.key, 'idempotency-key': head.key };
  const question = { path: '/v1/messages/batch', headers, body };
  const { answer, askedAt } = await insist(start, head.to, question, noteUndecided);
  if (answer === null) {
    totals.undecided++;
    return;
  }
  if (answer.isReplay) totals.replayed++;
  for (const [i, message] of messages.entries()) {
    const item = answer.items?.[i] ?? { error: answer };
    if (item.id !== undefined) promise(message, { id: item.id, askedAt }, promised);
    // The batch has a final answer, so an item that got a 503 is not retried.
    else if (item.error?.statusCode === 503) totals.unavailable++;
    else refuse(message, item.error?.statusCode ?? 0, item.error?.code ?? '');
  }
}

/** Retries a cancel until it is answered. A retry of a cancel that took effect without an answer is answered with a 200 too. */
async function cancelUntilAnswered(
  start: Start,
  { token, tenant, credential, to }: LoadMessage,
  id: string,
  append: Append<Cancellation>,
): Promise<void> {
  const question = { path: `/v1/messages/${id}/cancel`, headers: { 'x-service-key': credential.key } };
  const { answer, askedAt } = await insist(start, to + 1, question);
  if (answer === null) {
    totals.undecided++;
    return append({ token, askedAt, at: null });
  }
  if (answer.statusCode === 200) {
    totals.canceled++;
    return append({ token, askedAt, at: Date.now() });
  }
  const reason = `${answer.statusCode} ${answer.code}`;
  if (answer.code === 'not_cancelable') totals.notCanceled++;
  else if (!tenant.expects.includes(answer.code)) unexpected(`${reason} for the cancel of ${token}`);
}

/** @returns null where the request was refused. */
async function suppressUntilAnswered(
  start: Start,
  { tenant, channel, fields, token, to }: LoadMessage,
  owner: NonNullable<LoadTenant['owner']>,
): Promise<Pick<Suppression, 'askedAt' | 'at'> | null> {
  const firstAskedAt = Date.now();
  let isHeard = false;
  const question = {
    path: '/v1/admin/suppressions',
    headers: {
      authorization: `Bearer ${owner.token}`,
      'x-tenant-slug': owner.slug,
      'x-app-name': 'fault suite',
    },
    body: JSON.stringify({ channel, address: fields['to'], reason: 'manual' }),
    // An api whose clock a fault has moved may consider the token not yet valid or expired.
    isForLater: ({ code, statusCode }: Answer) => code === 'rate_limited' || statusCode === 401,
  };
  const { answer } = await insist(start, to, question, (undecided) => {
    isHeard ||= undecided === null || !question.isForLater(undecided);
  });
  if (answer?.statusCode === 201) {
    totals.suppressed++;
    return { askedAt: firstAskedAt, at: Date.now() };
  }
  if (answer === null) return { askedAt: firstAskedAt, at: null };
  if (!tenant.expects.includes(answer.code)) {
    unexpected(`${answer.statusCode} ${answer.code} for the suppression of ${token}'s recipient`);
  }
  return isHeard ? { askedAt: firstAskedAt, at: null } : null;
}

/** The final answer and when its request was sent; null where it was given up, with the time of the last request. */
type Insisted = { readonly answer: Answer | null; readonly askedAt: number };

type Question = {
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
  /** Further answers that are retried. No answer and a 503 always are. */
  readonly isForLater?: (answer: Answer) => boolean;
};

/**
 * Asks the api processes in turn until one gives a final answer or the request is given up.
 * @param first index of the process that is asked first.
 * @param undecided called for each try without a final answer, with null where there was no answer.
 */
async function insist(
  start: Start,
  first: number,
  { path, isForLater = () => false, ...rest }: Question,
  undecided: (answer: Answer | null) => void = () => {},
): Promise<Insisted> {
  for (let turn = first; ; turn++) {
    const askedAt = Date.now();
    const answer = await askFor(originOf(start, turn), path, rest);
    if (isFinal(answer) && !isForLater(answer)) return { answer, askedAt };
    undecided(answer);
    if (isGivenUp()) return { answer: null, askedAt };
    await sleep(delayMs(turn - first));
  }
}

/** Counts tries to send without a final answer. */
function noteUndecided(answer: Answer | null): void {
  if (answer === null) totals.unanswered++;
  else totals.unavailable++;
}

function originOf({ origins }: Start, turn: number): string {
  return origins[turn % origins.length] as string;
}

/** A slow machine answers slowly, so requests are given up only after nothing got a final answer for `PATIENCE_MS`. */
function isGivenUp(): boolean {
  return isStopped && Date.now() - decidedAt > PATIENCE_MS;
}

function delayMs(failed: number): number {
  return Math.min(RETRY_MS.first * 2 ** failed, RETRY_MS.max) * (0.5 + Math.random());
}

/** @returns the id of the acknowledged message; null where it was refused or the outcome is unknown. */
async function sendUntilAnswered(
  start: Start,
  message: LoadMessage,
  first: number,
  append: Append<Acknowledgement>,
): Promise<string | null> {
  const headers = { 'x-service-key': message.credential.key, 'idempotency-key': message.key };
  const body = JSON.stringify(message.fields);
  const { answer, askedAt } = await insist(
    start,
    first,
    { path: '/v1/messages', headers, body },
    noteUndecided,
  );
  if (answer === null) {
    totals.undecided++;
    return null;
  }
  const { statusCode, id, code, isReplay } = answer;
  if (statusCode !== 202) {
    refuse(message, statusCode, code);
    return null;
  }
  if (isReplay) totals.replayed++;
  promise(message, { id, askedAt }, append);
  return id;
}

function promise(
  message: LoadMessage,
  { id, askedAt }: { readonly id: string; readonly askedAt: number },
  append: Append<Acknowledgement>,
): void {
  totals.acknowledged++;
  const { tenantId, key, token, guarantee, sendAt, pinned, firstAskedAt, credential } = message;
  const entry = { id, tenantId, key, token, guarantee, sendAt, pinned, firstAskedAt };
  append({ ...entry, credential: credential.name, askedAt, at: Date.now() });
  countUse(credential.name);
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

type Answer = {
  readonly statusCode: number;
  readonly id: string;
  readonly code: string;
  readonly isReplay: boolean;
  /** Present in the answer to a batch. */
  readonly items?: readonly {
    readonly id?: string;
    readonly error?: { readonly statusCode: number; readonly code: string };
  }[];
};

/** Tells whether the answer is final; null and a 503 are not. */
function isFinal(answer: Answer | null): answer is Answer {
  if (answer === null || answer.statusCode === 503) return false;
  decidedAt = Date.now();
  return true;
}

/** @returns null where the outcome of the request is unknown. */
async function askFor(
  origin: string,
  path: string,
  { headers, body }: { readonly headers: Record<string, string>; readonly body?: string },
): Promise<Answer | null> {
  try {
    const answer = await request(origin + path, {
      method: 'POST',
      dispatcher: agent,
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body }),
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    const document = (await answer.body.json()) as Partial<Answer>;
    const { id = '', code = '', items } = document;
    const isReplay = answer.headers['idempotent-replayed'] === 'true';
    const rest = items === undefined ? {} : { items };
    return { statusCode: answer.statusCode, id, code, isReplay, ...rest };
  } catch {
    return null;
  }
}
