import type { ReceivedEvent } from './ledger.ts';
import type { EndpointRecord, MessageRecord } from './records.ts';
import type { Violation } from './violations.ts';

/** Compares the endpoint's feed and the tenant's feed with the events that the receiver recorded. */
export function checkEndpoint(endpoint: EndpointRecord, received: readonly ReceivedEvent[]): Violation[] {
  const { id, ordered, lastSeq, due, holes, missing, surplus } = endpoint;
  const violations: Violation[] = [];
  const note = (name: Violation['name'], isFound: boolean, detail: string): void => {
    if (isFound) violations.push({ name, detail: `endpoint ${id}: ${detail}` });
  };
  note('endpoint_feed', lastSeq === 0, 'its feed is empty');
  note('endpoint_feed', holes > 0, `its feed has ${holes} holes or overlaps`);
  note('endpoint_feed', missing > 0, `its feed lacks ${missing} events of the tenant's`);
  note('endpoint_feed', surplus > 0, `its feed has ${surplus} events twice, or that are none`);

  const forged = received.find(({ fault }) => fault !== null);
  note('signatures', forged !== undefined, `number ${forged?.seq}: ${forged?.fault}`);

  const taken = received.filter(({ isTaken }) => isTaken);
  const reached = new Set([...taken.map(({ seq }) => seq), ...due]);
  const unreached = Array.from({ length: lastSeq }, (_, i) => i + 1).filter((seq) => !reached.has(seq));
  note('told', unreached.length > 0, `${unreached.length} of ${lastSeq} never came, first ${unreached[0]}`);
  note(
    'told',
    received.some(({ seq }) => seq > lastSeq),
    `numbers above ${lastSeq} came`,
  );

  const ids = Map.groupBy(received, ({ seq }) => seq);
  const renumbered = [...ids].find(([, ones]) => new Set(ones.map((one) => one.id)).size > 1);
  note('told', renumbered !== undefined, `number ${renumbered?.[0]} stood for several events`);
  const seqs = Map.groupBy(received, (one) => one.id);
  const twice = [...seqs].find(([, ones]) => new Set(ones.map(({ seq }) => seq)).size > 1);
  note('told', twice !== undefined, `event ${twice?.[0]} came under several numbers`);

  if (ordered) {
    const early = firstEarly(received);
    note('ordered', early !== undefined, `number ${early?.seq} came before an earlier event of its message`);
  }
  return violations;
}

/**
 * Compares the receipt timeout failovers that an endpoint's receiver recorded with those in the database.
 * @param records messages of the endpoint's tenant.
 */
export function checkSilentEvents(
  { id, due }: EndpointRecord,
  received: readonly ReceivedEvent[],
  records: readonly Pick<MessageRecord, 'id' | 'silences'>[],
): Violation[] {
  const told = new Set(
    received.flatMap(({ isTaken, messageId, failover }) =>
      isTaken && failover?.why === 'receipt_timeout' ? [`${messageId} ${failover.from} ${failover.to}`] : [],
    ),
  );
  const known = new Set(
    records.flatMap((record) => record.silences.map(({ fromId, toId }) => `${record.id} ${fromId} ${toId}`)),
  );
  const untrue = [...told].filter((one) => !known.has(one));
  // Events that were committed when the last worker ended are still undelivered, so a missing one is no fault.
  const untold = due.length > 0 ? [] : [...known].filter((one) => !told.has(one));
  const say = (some: readonly string[], what: string): Violation[] =>
    some.length === 0
      ? []
      : [{ name: 'told', detail: `endpoint ${id}: ${some.length} failovers ${what}, first ${some[0]}` }];
  return [...say(untrue, 'are not on record'), ...say(untold, 'never came')];
}

/** Returns the first delivery of an event whose message has an earlier event that had not been accepted by then. */
function firstEarly(received: readonly ReceivedEvent[]): ReceivedEvent | undefined {
  const ofMessages = Map.groupBy(
    received.filter(({ messageId }) => messageId !== null),
    ({ messageId }) => messageId,
  );
  for (const calls of ofMessages.values()) {
    const taken = new Map<number, number>();
    for (const { isTaken, seq, at } of calls)
      if (isTaken) taken.set(seq, Math.min(at, taken.get(seq) ?? Number.POSITIVE_INFINITY));
    const seqs = [...new Set(calls.map(({ seq }) => seq))].toSorted((a, b) => a - b);
    for (const [i, seq] of seqs.entries()) {
      const before = seqs.slice(0, i).map((earlier) => taken.get(earlier) ?? Number.POSITIVE_INFINITY);
      const early = calls.find((call) => call.seq === seq && before.some((at) => at > call.at));
      if (early !== undefined) return early;
    }
  }
  return undefined;
}
