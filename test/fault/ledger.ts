import { readFile } from 'node:fs/promises';

/** One 202, as the client saw it. Times are milliseconds since the epoch of this machine's clock. */
export type Acknowledgement = {
  readonly id: string;
  readonly tenantId: string;
  /** Idempotency key. */
  readonly key: string;
  /** Unique text in the message's body. */
  readonly token: string;
  /** The name that the load gives the service key it used. */
  readonly credential: string;
  readonly guarantee: 'at_least_once' | 'at_most_once';
  /** The time before which it must not be sent; null where it is sent at once. */
  readonly sendAt: number | null;
  /** The provider account that the sender named; null where the route chooses. */
  readonly pinned: string | null;
  /** When the first request with this idempotency key was sent. */
  readonly firstAskedAt: number;
  /** When the request that received the answer was sent. */
  readonly askedAt: number;
  readonly at: number;
};

/** One cancel request for an acknowledged message that the service did not refuse. */
export type Cancellation = {
  readonly token: string;
  readonly askedAt: number;
  /** When it was answered with a 200; null where the outcome is unknown. */
  readonly at: number | null;
};

/** One request to suppress the recipient of a message that the service did not refuse. */
export type Suppression = {
  readonly token: string;
  readonly askedAt: number;
  /** When it was answered with a 201; null where the outcome is unknown. */
  readonly at: number | null;
};

/** One request with a message that a provider received completely. */
export type ProviderCall = {
  readonly token: string;
  /** The worker that made it. */
  readonly worker: string;
  /** The account that made the call; empty where the request does not contain it. */
  readonly account: string;
  readonly at: number;
  /** How the provider behaved. Only after `accepted` is the message certainly on its way. */
  readonly answer: 'accepted' | ProviderTrouble;
};

/** One receipt that the api answered with a 2xx. */
export type TakenReceipt = {
  readonly token: string;
  /** The account that sent the message; empty where its request does not contain it. */
  readonly account: string;
  /** The reported state, in the provider's words. */
  readonly state: string;
  readonly at: number;
};

/** One event that a tenant's receiver received. */
export type ReceivedEvent = {
  readonly endpointId: string;
  readonly id: string;
  /** Its number in the endpoint's feed. */
  readonly seq: number;
  /** Null where the event is not about a message. */
  readonly messageId: string | null;
  /** For a failover: its reason and the ids of the two accounts; else null. */
  readonly failover: { readonly why: string; readonly from: string | null; readonly to: string } | null;
  /** Why the signature is invalid; null where it is valid. */
  readonly fault: string | null;
  /** The receiver answered with a 2xx, or meant to. */
  readonly isTaken: boolean;
  /** When the call arrived. */
  readonly at: number;
};

export type ReceiverTrouble = 'hang' | 'reset' | 'late' | 'unavailable' | 'down' | 'gone';

export type ProviderTrouble = 'hang' | 'reset' | 'late' | 'unavailable' | 'throttled';

/** Answers with which a provider did not accept the message and expects a retry. */
export const REFUSALS: ReadonlySet<string> = new Set<ProviderTrouble>(['unavailable', 'throttled']);

/** Reads a ledger with one JSON document per line. */
export async function readLedger<T>(path: string): Promise<T[]> {
  const text = await readFile(path, 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}
