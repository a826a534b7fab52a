import type { Engagement } from '#core/domain/engagement.ts';
import type { Failure } from '#core/domain/failure.ts';
import type { ReceiptKind } from '#core/domain/outcome.ts';
import type { ProviderContext } from './provider.ts';

/** A vendor's call to an account's receipt URL, as it arrived. */
export type ReceiptCall = {
  readonly method: 'GET' | 'POST';
  /** The URL that the vendor was given: `PUBLIC_BASE_URL`, then path and query as they came. Never made of the Host header. */
  readonly url: string;
  /** Those that the definition names; names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Byte for byte. */
  readonly body: Uint8Array;
  /** When the api took it, in milliseconds since the epoch. Timestamps are judged by this and not by when it is looked at. */
  readonly receivedAt: number;
};

/** What the api answers a vendor with, before anybody has looked into the call. */
export type ReceiptAnswer = {
  readonly status: 200 | 204;
  readonly contentType?: string;
  readonly body?: string;
};

export const FORGERY_REASONS = [
  'signature_missing',
  'signature_mismatch',
  'timestamp_out_of_tolerance',
  'unknown_sender',
] as const;
export type ForgeryReason = (typeof FORGERY_REASONS)[number];

export type ReceiptVerdict =
  /** `isUnsigned`: no signature was looked at, so that the token in the URL alone vouches for the call. */
  | { readonly kind: 'genuine'; readonly isUnsigned?: true }
  /** Not the vendor's. Shown to the tenant, and never applied. */
  | { readonly kind: 'forged'; readonly reason: ForgeryReason }
  /** What is needed to tell, such as a certificate, cannot be had now. Judged again later. */
  | { readonly kind: 'undecided' };

/** One report on one message, in terms that hold for every provider. */
export type ParsedReceipt = {
  /** The message's public id, where the vendor gives back what it was sent with. Looked for first. */
  readonly reference?: string;
  /** The vendor's id of the message, in the form in which `send` has returned it. */
  readonly providerMessageId?: string;
  /** The same for each repetition of this report and for no other one of the account. Absent: a hash of the report. */
  readonly eventId?: string;
  /** Which segment it speaks of, where a vendor reports on each by itself. */
  readonly segment?: string;
  /** Absent where nothing follows for the state. */
  readonly state?: ReceiptKind;
  /** Of `undelivered`: the vendor may still deliver the same message. */
  readonly isTemporary?: boolean;
  /** Of `undelivered`. */
  readonly failure?: Failure;
  readonly engagement?: Engagement;
  /** When it happened, as the vendor says, in milliseconds since the epoch. */
  readonly at?: number;
  /** The vendor's own word, at most `PROVIDER_STATUS_MAX` characters. */
  readonly providerStatus: string;
};

export type ParsedCall =
  /** None, where the call is about something else, such as a message of a person. */
  | { readonly kind: 'receipts'; readonly receipts: readonly ParsedReceipt[] }
  /** The vendor wants this address to be asked for before it sends anything. */
  | { readonly kind: 'confirm'; readonly url: string }
  /** Not in the vendor's format. */
  | { readonly kind: 'unreadable' };

/** How a vendor learns of the receipt URL. `automatic`: with each message. `manual`: by a person, who follows the steps. */
export type ReceiptSetup = {
  readonly mode: 'automatic' | 'manual';
  /** Sentences for people. Also where it is automatic, for what has to be allowed or switched on first. */
  readonly steps: readonly string[];
};

/** How a provider reports on messages that it has accepted. */
export type ReceiptDefinition<Config, Secrets> = {
  readonly setup: ReceiptSetup;
  /** Longest body in bytes; at most 4 MiB. Default 256 KiB. */
  readonly bytesMax?: number;
  /** Headers that `verify` and `parse` look at, in lower case. No other one is stored. */
  readonly headers: readonly string[];
  /** Some receipts name the vendor's id of the message alone. Default false: keeping the ids findable costs each send something. */
  readonly mayLackReference?: boolean;
  /** What it tells of recipients beside the state. Default: nothing. */
  readonly engagement?: readonly Engagement[];
  /** Default: 204 without a body. */
  readonly answer?: ReceiptAnswer;
  /**
   * Answers a call by which the vendor only makes sure that the URL is ours. Undefined for any other call.
   * @param token of the receipt URL, which stands for a secret that both sides know.
   */
  handshake?(call: Pick<ReceiptCall, 'method' | 'url'>, token: string): ReceiptAnswer | undefined;
  /**
   * Whether the vendor has made this call. Absent where the vendor signs nothing: the token in the URL is the secret then.
   * Asked once with each secret that is in force.
   */
  verify?(
    call: ReceiptCall,
    account: { readonly config: Config; readonly secrets: Secrets },
    context: ProviderContext,
  ): ReceiptVerdict | Promise<ReceiptVerdict>;
  /** Reads a genuine call. Never throws, whatever it is given. */
  parse(call: ReceiptCall): ParsedCall;
};

/** A timestamp that was signed may be so far from the arrival, before or after. Standard Webhooks recommends five minutes. */
export const TIMESTAMP_TOLERANCE_MS = 300_000;
/** Of `ParsedReceipt.providerStatus`, in characters. */
export const PROVIDER_STATUS_MAX = 64;
