import { readFile } from 'node:fs/promises';

/** One 202, as the client saw it. Times are milliseconds since the epoch of this machine's clock. */
export type Acknowledgement = {
  readonly id: string;
  readonly tenantId: string;
  /** Idempotency key. */
  readonly key: string;
  /** Unique text in the message's body. */
  readonly token: string;
  /** The service key that it was sent with, by its name in the load. */
  readonly credential: string;
  readonly guarantee: 'at_least_once' | 'at_most_once';
  /** The instant that it is not to be sent before; null: at once. */
  readonly sendAt: number | null;
  /** The vendor's account that its sender named; null: whichever its route chooses. */
  readonly pinned: string | null;
  /** When the first request with this idempotency key left. */
  readonly firstAskedAt: number;
  /** When the request left that was answered. */
  readonly askedAt: number;
  readonly at: number;
};

/** One wish to cancel a message that was acknowledged, unless the service has said no. */
export type Cancellation = {
  readonly token: string;
  readonly askedAt: number;
  /** When it was answered with a 200; null where nobody knows what became of it. */
  readonly at: number | null;
};

/** One wish that the recipient of a message get nothing more, unless the service has said no. */
export type Suppression = {
  readonly token: string;
  readonly askedAt: number;
  /** When it was answered with a 201; null where nobody knows what became of it. */
  readonly at: number | null;
};

/** One request with a message, taken whole by a provider. */
export type ProviderCall = {
  readonly token: string;
  /** The worker that made it. */
  readonly worker: string;
  /** The account that it was made with; empty where the request does not tell. */
  readonly account: string;
  readonly at: number;
  /** How the provider behaved; `accepted` is the only one after which the message is on its way for certain. */
  readonly answer: 'accepted' | ProviderTrouble;
};

/** One report of a provider that was answered with a 2xx. */
export type TakenReceipt = {
  readonly token: string;
  /** The account whose message it is about; empty where the request for that does not tell. */
  readonly account: string;
  /** What was reported, in the provider's word. */
  readonly state: string;
  readonly at: number;
};

/** One event as a tenant's receiver took it. */
export type ReceivedEvent = {
  readonly endpointId: string;
  readonly id: string;
  /** Its number in the endpoint's feed. */
  readonly seq: number;
  /** Null where it is none of a message. */
  readonly messageId: string | null;
  /** Of a message that went on to another account, by the accounts' ids; else null. */
  readonly failover: { readonly why: string; readonly from: string | null; readonly to: string } | null;
  /** Why it is not genuine; null where its signature holds. */
  readonly fault: string | null;
  /** It was to be answered with a 2xx. */
  readonly isTaken: boolean;
  /** When it came. */
  readonly at: number;
};

export type ReceiverTrouble = 'hang' | 'reset' | 'late' | 'unavailable' | 'down' | 'gone';

export type ProviderTrouble = 'hang' | 'reset' | 'late' | 'unavailable' | 'throttled';

/** Answers after which a provider asks for another call: it has not taken the message. */
export const REFUSALS: ReadonlySet<string> = new Set<ProviderTrouble>(['unavailable', 'throttled']);

/** One JSON document a line. */
export async function readLedger<T>(path: string): Promise<T[]> {
  const text = await readFile(path, 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}
