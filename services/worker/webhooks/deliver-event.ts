import type { EpochClock } from '#core/domain/clock.ts';
import type { HttpRequest, HttpResult } from '#core/domain/sending/http-exchange.ts';
import { RETRY_AFTER_MS_MAX } from '#core/domain/webhooks/endpoint-health.ts';
import { retryAfterMs } from '#core/domain/sending/retry-after.ts';
import type { WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import { createRedactor, type Redactor } from '#providers/redact.ts';
import type { EndpointKeys } from './endpoint-secrets.ts';

export type DeliverEventDeps = {
  /** Makes one HTTP exchange; gives up at the deadline of a call. */
  readonly http: (request: HttpRequest) => Promise<HttpResult>;
  /** Whether the operator permits deliveries without TLS. */
  readonly allowHttp: boolean;
  readonly epochMs: EpochClock;
};

/** The result of a call. */
export type DeliveredEvent = {
  readonly at: Date;
  readonly durationMs: number;
  /** The request headers, without those that every call has. */
  readonly sent: Readonly<Record<string, string>>;
  /** Null if no answer arrived. */
  readonly response: { readonly status: number; readonly headers: Readonly<Record<string, string>> } | null;
  /** Why no answer arrived; null if one did. */
  readonly error: string | null;
  /** The beginning of the answer's body, with secrets and recipients redacted. */
  readonly answer: string | null;
  readonly succeeded: boolean;
  /** The pause that a 429 or 503 asks for. */
  readonly retryAfterMs: number | undefined;
};

/** An endpoint with all that its calls need, prepared once for many calls. */
export type ReadyEndpoint = {
  readonly endpoint: WebhookEndpoint;
  readonly keys: EndpointKeys;
  readonly redact: Redactor;
  /** The endpoint's URL as written in a request: escaped, and with a path. */
  readonly href: string;
};

const ANSWER_LENGTH_MAX = 1_024;
const THROTTLED: readonly number[] = [429, 503];

export function readyEndpoint(endpoint: WebhookEndpoint, keys: EndpointKeys): ReadyEndpoint {
  const { href } = new URL(endpoint.url);
  return { endpoint, keys, redact: createRedactor(keys.redactions, ANSWER_LENGTH_MAX), href };
}

/**
 * Sends one event to one endpoint, once, signed by Standard Webhooks. Never rejects; only a 2xx is a success.
 * @param id id of the event, by which a receiver detects duplicates.
 * @param body the bytes that are signed and sent.
 */
export async function deliverEvent(
  { endpoint, keys, redact, href }: ReadyEndpoint,
  id: string,
  body: Buffer,
  { http, allowHttp, epochMs }: DeliverEventDeps,
): Promise<DeliveredEvent> {
  const at = epochMs();
  const begun = performance.now();
  const timestamp = Math.floor(at / 1_000);
  const sent = {
    ...endpoint.headers,
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': keys.sign(id, timestamp, body),
  };
  const isAllowed = allowHttp || href.startsWith('https://');
  const result = isAllowed ? await http(requestOf(endpoint, href, keys, sent, body)) : WITHOUT_TLS;
  const ended = { at: new Date(at), durationMs: Math.round(performance.now() - begun), sent };
  if (result.kind !== 'response')
    return {
      ...ended,
      response: null,
      error: result.code,
      answer: null,
      succeeded: false,
      retryAfterMs: undefined,
    };
  const { status, headers, text } = result;
  return {
    ...ended,
    response: { status, headers },
    error: null,
    // Truncated after the redaction, because a truncated secret would not be recognized.
    answer: text === '' ? null : redact(text),
    succeeded: status >= 200 && status < 300,
    retryAfterMs: THROTTLED.includes(status)
      ? retryAfterMs(headers['retry-after'], epochMs(), RETRY_AFTER_MS_MAX)
      : undefined,
  };
}

const WITHOUT_TLS: HttpResult = { kind: 'not_sent', code: 'https_required' };

function requestOf(
  { id, version }: WebhookEndpoint,
  url: string,
  { clientCertificate }: EndpointKeys,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): HttpRequest {
  const request = { method: 'POST', url, headers, body, isTenantHost: true } as const;
  return clientCertificate === undefined
    ? request
    : { ...request, clientCertificate: { group: `${id} ${version}`, ...clientCertificate } };
}
