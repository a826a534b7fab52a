import type { Engagement } from '#core/domain/receipts/engagement.ts';
import type { Failure } from '#core/domain/sending/failure.ts';
import type { ReceiptKind } from '#core/domain/sending/outcome.ts';
import type { ProviderContext } from './provider.ts';

/** A vendor's call to an account's receipt URL, unchanged. */
export type ReceiptCall = {
  readonly method: 'GET' | 'POST';
  /**
   * The URL that the vendor was given: `PUBLIC_BASE_URL` plus path and query as received. Never built from the Host header.
   */
  readonly url: string;
  /** Only the headers that the definition lists; names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The unmodified bytes. */
  readonly body: Uint8Array;
  /**
   * When the api received the call, in milliseconds since the epoch. Timestamps are checked against this, not against the
   * time of processing.
   */
  readonly receivedAt: number;
};

/** Media types of the bodies that vendors expect. */
export type ReceiptAnswerType = 'text/xml' | 'text/plain';

/** The api's response to a vendor, sent before the call is verified or parsed. */
export type ReceiptAnswer = {
  readonly status: 200 | 204;
  readonly contentType?: ReceiptAnswerType;
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
  /** `isUnsigned`: no signature was checked, so only the token in the URL authenticates the call. */
  | { readonly kind: 'genuine'; readonly isUnsigned?: true }
  /** Not made by the vendor. Shown to the tenant and never applied. */
  | { readonly kind: 'forged'; readonly reason: ForgeryReason }
  /** Something needed for the check, such as a certificate, is unavailable now. Checked again later. */
  | { readonly kind: 'undecided' };

/** One report on one message, in provider-independent terms. */
export type ParsedReceipt = {
  /**
   * The message's public id, where the vendor repeats what it was sent. Used before `providerMessageId` to find the
   * message.
   */
  readonly reference?: string;
  /** The vendor's id of the message, in the form that `send` returned. */
  readonly providerMessageId?: string;
  /**
   * Equal for every repetition of this report and different for every other report of the account. Absent: a hash of the
   * report.
   */
  readonly eventId?: string;
  /** The message segment, where a vendor reports on each segment separately. */
  readonly segment?: string;
  /** Absent when the report does not change the state. */
  readonly state?: ReceiptKind;
  /** Only with `undelivered`: the vendor may still deliver the message. */
  readonly isTemporary?: boolean;
  /** Only with `undelivered`. */
  readonly failure?: Failure;
  readonly engagement?: Engagement;
  /** When the event happened according to the vendor, in milliseconds since the epoch. */
  readonly at?: number;
  /** The vendor's own name of the state, at most `PROVIDER_STATUS_MAX` characters. */
  readonly providerStatus: string;
};

export type ParsedCall =
  /** Empty when the call is about something else, such as an inbound message. */
  | { readonly kind: 'receipts'; readonly receipts: readonly ParsedReceipt[] }
  /** The vendor requires a request to this URL before it sends any report. */
  | { readonly kind: 'confirm'; readonly url: string }
  /** Not in the vendor's format. */
  | { readonly kind: 'unreadable' };

/**
 * How a vendor gets the receipt URL. `automatic`: with each message. `manual`: a person enters it by following the steps.
 */
export type ReceiptSetup = {
  readonly mode: 'automatic' | 'manual';
  /** Sentences for people. Also used with `automatic`, for what must be allowed or enabled first. */
  readonly steps: readonly string[];
};

/** How a provider reports on accepted messages. */
export type ReceiptDefinition<Config, Secrets> = {
  readonly setup: ReceiptSetup;
  /**
   * With `automatic`: whether the vendor reports for this account without any step. Otherwise that is known only after its first
   * report. Default: for every account.
   */
  readonly isAutomaticFor?: (config: Config) => boolean;
  /** Maximum body length in bytes; at most 4 MiB. Default 256 KiB. */
  readonly bytesMax?: number;
  /** Headers that `verify` and `parse` read, in lower case. No other header is stored. */
  readonly headers: readonly string[];
  /**
   * Some receipts contain only the vendor's id of the message. Default false: storing searchable vendor ids adds cost to
   * each send.
   */
  readonly mayLackReference?: boolean;
  /** Recipient events reported in addition to the state. Default: none. */
  readonly engagement?: readonly Engagement[];
  /** Default: 204 without a body. */
  readonly answer?: ReceiptAnswer;
  /**
   * Answers a call that the vendor makes only to verify ownership of the URL. Undefined for any other call.
   * @param token token of the receipt URL; serves as the secret shared with the vendor.
   */
  handshake?(call: Pick<ReceiptCall, 'method' | 'url'>, token: string): ReceiptAnswer | undefined;
  /**
   * Verifies that the vendor made this call. Absent when the vendor does not sign: the token in the URL is the secret then.
   * Called once with each valid secret.
   */
  verify?(
    call: ReceiptCall,
    account: { readonly config: Config; readonly secrets: Secrets },
    context: ProviderContext,
  ): ReceiptVerdict | Promise<ReceiptVerdict>;
  /** Parses a genuine call. Never throws, whatever the input. */
  parse(call: ReceiptCall): ParsedCall;
};

/**
 * Maximum distance between a signed timestamp and the arrival, before or after. Standard Webhooks recommends five minutes.
 */
export const TIMESTAMP_TOLERANCE_MS = 300_000;
/** Limit of `ParsedReceipt.providerStatus`, in characters. */
export const PROVIDER_STATUS_MAX = 64;
