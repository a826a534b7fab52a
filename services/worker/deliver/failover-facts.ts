import type { FailoverFacts } from '#core/domain/routing/failover.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { FAILOVER_CLASSES, FAILOVER_DEFAULT, routeByAge, type Route } from '#core/domain/routing/route.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { FailoverRow } from '#core/store/sending/waiting-messages.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { askUntilAnswered, type AskUntilAnsweredDeps } from '../ask-until-answered.ts';

/** The facts of a failover decision, and the provider of each usable account. */
export type AccountedFacts = {
  readonly facts: FailoverFacts;
  readonly providers: ReadonlyMap<string, string>;
};

export type FailoverFactsDeps = AskUntilAnsweredDeps & {
  readonly store: Pick<WorkerStore, 'failoverFacts'>;
};

const BATCH_MAX = 256;

const CLASSES: readonly string[] = FAILOVER_CLASSES;

/** Whether another account may be considered at all. For other outcomes the database is not queried. */
export function mayFailOver(outcome: AttemptOutcome, message: ClaimedMessage): boolean {
  // Tests break this (mutant: ambiguous-facts): a message that may have been sent stays with its account.
  if (outcome.kind !== 'rejected_permanent' && outcome.kind !== 'rejected_transient') return false;
  if (message.accountId === null || message.ambiguous > 0) return false;
  // If the message was sent earlier, the record must name the route by which it was not sent again.
  return message.sentAccountId !== null || CLASSES.includes(outcome.failure.class);
}

/**
 * Returns a function that loads the current facts for the failover of refused messages, batched over calls that end together.
 * While the database does not answer it retries, because the outcomes must be recorded anyway.
 * @throws the database's error, once `signal` is aborted.
 */
export function createFailoverFacts({ store, ...deps }: FailoverFactsDeps) {
  const batch = createMicroBatch<ClaimedMessage, AccountedFacts | undefined>({
    itemsMax: BATCH_MAX,
    flushesMax: 2,
    queuedMax: Number.POSITIVE_INFINITY,
    async flush(messages) {
      const seqs = messages.map(({ seq }) => seq);
      const rows = await askUntilAnswered(() => store.failoverFacts(seqs), seqs.length, deps);
      const bySeq = new Map(rows.map((row) => [row.seq, row]));
      return messages.map((message) => factsOf(message, bySeq.get(message.seq)));
    },
  });

  return (message: ClaimedMessage): Promise<AccountedFacts | undefined> => batch.add(message);
}

function factsOf(
  { id: messageId, accountId, channel }: ClaimedMessage,
  row: FailoverRow | undefined,
): AccountedFacts | undefined {
  if (row === undefined || accountId === null) return undefined;
  const { usable, invalid, providers, tried } = row;
  return {
    facts: { messageId, accountId, route: routeOf(channel, row), usable, invalid, tried: tried ?? [] },
    providers: new Map(usable.map((id, i) => [id, providers[i] ?? 'unknown'])),
  };
}

function routeOf(channel: string, { version, strategy, steps, failoverOn, usable }: FailoverRow): Route {
  if (version === null || strategy === null || steps === null) {
    return routeByAge(
      channel,
      usable.map((id) => ({ id, channel })),
    );
  }
  return { channel, version, strategy, steps, failoverOn: failoverOn ?? FAILOVER_DEFAULT };
}
