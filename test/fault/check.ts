import { canMove, type MessageState } from '#core/domain/message-state.ts';
import { REFUSALS, type Acknowledgement, type ProviderCall } from './ledger.ts';
import type { MessageRecord } from './records.ts';

/** Each is one guarantee; `VIOLATIONS` says it in words. */
export const VIOLATIONS = {
  lost: 'every acknowledged message is stored and has come to an end that its record explains',
  failed: 'no message fails because of an outage of ours',
  ghost: 'nothing is sent that was not stored',
  duplicate: 'a second call only with duplicateRisk, or after the provider asked for it',
  unrecorded: 'every call has an attempt that was committed before it',
  at_most_once: 'an at_most_once message is called once at most',
  ambiguous: 'a message whose one call got no answer is unknown, or marked with duplicateRisk',
  idempotency: 'an idempotency key stands for one message',
  moves: 'a message moves along the states that are allowed, and never back',
  attempts: 'attempt numbers have no gap, and every attempt is closed',
  quota: 'exactly the daily limit is accepted',
  rate: 'no more requests a minute than the limit',
  revocation: 'a revoked key is refused within five seconds',
  suspension: 'a suspended tenant is refused and not delivered for',
  answers: 'a client is only told what is true',
  canary: 'no secret is anywhere but where it belongs',
  end: 'a process that is told to end does so with exit code 0',
  recovery: 'everything is ready again by itself',
} as const;

export type ViolationName = keyof typeof VIOLATIONS;
export type Violation = { readonly name: ViolationName; readonly detail: string };

/** A message as the public api shows it. */
export type ShownMessage = {
  readonly status: string;
  readonly attemptCount: number;
  readonly duplicateRisk: boolean;
};

export type CheckInput = {
  readonly acknowledgements: readonly Acknowledgement[];
  readonly calls: readonly ProviderCall[];
  readonly limits: {
    readonly daily: { readonly tenantId: string; readonly max: number };
    /** UTC days that the run touched. */
    readonly days: number;
    readonly perMinute: { readonly tenantId: string; readonly max: number };
  };
  /** Some messages as the public api showed them in the end, by their ids. */
  readonly shown: ReadonlyMap<string, ShownMessage>;
  readonly revocations: readonly { readonly credential: string; readonly at: number }[];
  readonly suspensions: readonly { readonly tenantId: string; readonly from: number; readonly to: number }[];
};

export type Checked = {
  readonly violations: readonly Violation[];
  readonly acknowledged: number;
  readonly stored: number;
  readonly calls: number;
  readonly states: Readonly<Record<string, number>>;
  /** Second calls of a message, by what explains them. */
  readonly repeats: {
    readonly duplicateRisk: number;
    readonly askedFor: number;
    readonly unexplained: number;
  };
};

export type Checker = {
  readonly visit: (record: MessageRecord) => void;
  readonly conclude: () => Checked;
};

/** What each process may remember of a key or a tenant, and some breath. */
const MEMORY_MS = 5_500;
/** A call that was under way when its tenant was suspended may still end. */
const UNDER_WAY_MS = 2_000;
const ENDS: ReadonlySet<string> = new Set(['sent', 'delivered', 'undelivered', 'unknown']);

/** Compares what was promised, what was done and what is written down. */
export function createChecker(input: CheckInput): Checker {
  const violations: Violation[] = [];
  const violate = (name: ViolationName, detail: string): void => void violations.push({ name, detail });
  const promised = Map.groupBy(input.acknowledgements, ({ token }) => token);
  const called = Map.groupBy(input.calls, ({ token }) => token);
  const seen = new Set<string>();
  const states: Record<string, number> = {};
  const repeats = { duplicateRisk: 0, askedFor: 0, unexplained: 0 };
  const tenantOf = new Map<string, string>();
  let ofLimited = 0;

  function checkOutcome(record: MessageRecord): void {
    const { id, status, reason, failure, isTimed } = record;
    if (ENDS.has(status) || isTimed) return;
    const why = failure === null ? (reason ?? 'no reason') : `${failure.class} ${failure.code}`;
    const name = status === 'failed' || status === 'expired' ? 'failed' : 'lost';
    violate(name, `message ${id} is ${status} (${why})`);
  }

  function checkCalls(record: MessageRecord): void {
    const { id, status, duplicateRisk, guarantee, attempts, outcomes } = record;
    const calls = called.get(record.token) ?? [];
    const started = outcomes.filter((outcome) => outcome !== 'not_started').length;
    if (calls.length > started)
      violate('unrecorded', `message ${id}: ${calls.length} calls, ${started} attempts`);
    const taken = calls.filter(({ answer }) => !REFUSALS.has(answer));
    const extra = calls.length - 1;
    if (extra > 0 && taken.length > 1) {
      if (duplicateRisk) repeats.duplicateRisk += extra;
      else {
        repeats.unexplained += extra;
        const how = calls.map(
          ({ worker, answer, at }) => `${worker} ${answer} ${new Date(at).toISOString()}`,
        );
        violate('duplicate', `message ${id} (${status}, attempts ${attempts.join()}): ${how.join('; ')}`);
      }
    } else if (extra > 0) repeats.askedFor += extra;
    if (guarantee === 'at_most_once' && taken.length > 1) {
      violate('at_most_once', `message ${id} was called ${taken.length} times`);
    }
    const last = outcomes.at(-1);
    if (last === 'ambiguous' && status !== 'unknown' && !duplicateRisk && ENDS.has(status)) {
      // A late answer is proof: it comes as a receipt.
      if (!record.events.includes('sent')) violate('ambiguous', `message ${id} is ${status}`);
    }
    if (status === 'sent' && taken.length === 0)
      violate('answers', `message ${id} is sent, and nobody was called`);
  }

  function checkHistory({ id, attempts, outcomes, events, status }: MessageRecord): void {
    const isContiguous = attempts.every((number, i) => number === i + 1);
    const isOpen = outcomes.includes('started') && status !== 'sending';
    if (!isContiguous || isOpen) violate('attempts', `message ${id}: ${attempts.join()} ${outcomes.join()}`);
    if (!isHistory(events)) violate('moves', `message ${id}: ${events.join(' ')}`);
    const last = events.filter((event) => event !== 'released').at(-1);
    if (last !== undefined && last !== status && ENDS.has(status)) {
      violate('moves', `message ${id} is ${status}, its last event ${last}`);
    }
  }

  function checkShown({ id, status, attempts, duplicateRisk }: MessageRecord): void {
    const shown = input.shown.get(id);
    if (shown === undefined) return;
    const isTrue =
      shown.status === status &&
      shown.attemptCount === attempts.length &&
      shown.duplicateRisk === duplicateRisk;
    if (!isTrue) violate('answers', `message ${id} is shown as ${JSON.stringify(shown)}, and is ${status}`);
  }

  function checkPromises(): void {
    for (const [token, entries] of promised) {
      const ids = new Set(entries.map(({ id }) => id));
      if (ids.size > 1) violate('idempotency', `${token} was answered with ${[...ids].join(' and ')}`);
      if (!seen.has(token))
        violate('lost', `${token} (${[...ids].join()}) was acknowledged and is not stored`);
    }
    for (const token of called.keys()) {
      if (!seen.has(token)) violate('ghost', `${token} was sent and is not stored`);
    }
  }

  function checkLimits(): void {
    const { daily, days, perMinute } = input.limits;
    const max = daily.max * days;
    if (ofLimited > max) violate('quota', `${ofLimited} messages stored, ${max} allowed`);
    const times = input.acknowledgements
      .filter(({ tenantId }) => tenantId === perMinute.tenantId)
      .toSorted((a, b) => a.firstAskedAt - b.firstAskedAt);
    for (const { firstAskedAt } of times) {
      const within = times.filter(
        (one) => one.firstAskedAt >= firstAskedAt && one.at <= firstAskedAt + 60_000,
      );
      const tokens = new Set(within.map(({ token }) => token));
      if (tokens.size > perMinute.max)
        violate('rate', `${tokens.size} in a minute, ${perMinute.max} allowed`);
    }
  }

  function checkAccess(): void {
    for (const { credential, at } of input.revocations) {
      const late = input.acknowledgements.find(
        (one) => one.credential === credential && one.firstAskedAt > at + MEMORY_MS,
      );
      if (late !== undefined)
        violate('revocation', `${credential} was good ${late.firstAskedAt - at} ms later`);
    }
    for (const { tenantId, from, to } of input.suspensions) {
      const accepted = input.acknowledgements.filter(
        (one) => one.tenantId === tenantId && one.firstAskedAt > from + MEMORY_MS && one.at < to,
      );
      const sent = input.calls.filter(
        ({ token, at }) =>
          tenantOf.get(token) === tenantId && at > from + MEMORY_MS + UNDER_WAY_MS && at < to,
      );
      if (accepted.length > 0) violate('suspension', `${accepted.length} messages accepted while suspended`);
      if (sent.length > 0) violate('suspension', `${sent.length} messages sent while suspended`);
    }
  }

  return {
    visit(record) {
      states[record.status] = (states[record.status] ?? 0) + 1;
      // A key that stands for two messages has two rows with one text.
      if (seen.has(record.token)) violate('idempotency', `${record.token} is stored twice`);
      seen.add(record.token);
      tenantOf.set(record.token, record.tenantId);
      if (record.tenantId === input.limits.daily.tenantId) ofLimited++;
      for (const { id } of promised.get(record.token) ?? []) {
        if (id !== record.id) violate('idempotency', `${record.token} is ${record.id}, answered with ${id}`);
      }
      checkOutcome(record);
      checkCalls(record);
      checkHistory(record);
      checkShown(record);
    },
    conclude() {
      checkPromises();
      checkLimits();
      checkAccess();
      return {
        violations,
        acknowledged: promised.size,
        stored: seen.size,
        calls: input.calls.length,
        states,
        repeats,
      };
    },
  };
}

/** Whether events follow each other as states may; between two of them a message is `queued` or `sending` unseen. */
function isHistory(events: readonly string[]): boolean {
  let state: MessageState = 'queued';
  for (const event of events) {
    if (event === 'released') {
      state = 'queued';
      continue;
    }
    const next = event as MessageState;
    const isDirect = canMove(state, next);
    const isByAttempt = canMove(state, 'sending') && canMove('sending', next);
    if (!isDirect && !isByAttempt) return false;
    state = next;
  }
  return true;
}
