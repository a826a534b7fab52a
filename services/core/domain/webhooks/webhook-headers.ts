import { REDACTED_LENGTH_MIN } from './redacted-length.ts';

/** One violated rule, with the header's name. The message never repeats a value. */
export type WebhookHeaderFault = { readonly name: string; readonly rule: string; readonly message: string };

export const WEBHOOK_HEADERS_MAX = 10;
export const WEBHOOK_HEADER_CHARACTERS_MAX = 1_000;

const NAME = /^[A-Za-z0-9-]{1,64}$/;
const VALUE = /^[!-~](?:[ -~]*[!-~])?$/;
/** Headers that the call itself sets, that belong to its connection, or that a browser or a proxy guarantees. */
const RESERVED =
  /^(?:host|content-.*|connection|transfer-encoding|te|trailer|upgrade|keep-alive|proxy-.*|expect|user-agent|cookie|webhook-.*|accept-encoding|sec-.*)$/i;
const SECRET = /auth|token|key|secret|pass|credential|signature|session/i;
/** Of a shorter value four characters would reveal too much. */
const SHOWN_FROM = 12;

/** Returns the faults of the headers that a tenant adds to the calls of an endpoint. */
export function webhookHeaderFaults(headers: Readonly<Record<string, string>>): WebhookHeaderFault[] {
  const seen = new Set<string>();
  return Object.entries(headers).flatMap(([name, value]): WebhookHeaderFault[] => {
    const lower = name.toLowerCase();
    const isTwice = seen.has(lower);
    seen.add(lower);
    if (!NAME.test(name))
      return [fault(name, 'name', 'Must be named by 1 to 64 letters, digits and hyphens')];
    if (RESERVED.test(name))
      return [fault(name, 'reserved', 'Is set by the service itself, or by its connection')];
    if (isTwice) return [fault(name, 'single', 'Must be given once')];
    if (value.length > WEBHOOK_HEADER_CHARACTERS_MAX || !VALUE.test(value)) {
      const message = `Must be 1 to ${WEBHOOK_HEADER_CHARACTERS_MAX} visible ASCII characters`;
      return [fault(name, 'value', message)];
    }
    return [];
  });
}

/** Returns whether a header's name implies that its value is secret. */
export function isSecretHeader(name: string): boolean {
  return SECRET.test(name);
}

/**
 * Returns the value that is shown for a header. A masked value cannot be sent back as a value, because an ellipsis is no ASCII.
 */
export function shownHeader(name: string, value: string): string {
  if (!isSecretHeader(name)) return value;
  return value.length < SHOWN_FROM ? '…' : `…${value.slice(-4)}`;
}

/**
 * Returns the texts to redact if a receiver repeats the headers: values, the parts after a word such as `Bearer`, and the user and the
 * password of a login of the scheme Basic, as the receiver decodes them.
 */
export function redactionsOfHeaders(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    const whole = isSecretHeader(name) || value.length >= REDACTED_LENGTH_MIN ? [value] : [];
    const parts = [...value.split(/[ ,;]+/), ...loginParts(value)];
    return [...whole, ...parts.filter((part) => part !== value && part.length >= REDACTED_LENGTH_MIN)];
  });
}

/** Returns the user and the password of a value of the scheme Basic (RFC 7617); only the first colon separates them. */
function loginParts(value: string): string[] {
  const [, base64] = /^basic +(\S+)$/i.exec(value) ?? [];
  if (base64 === undefined) return [];
  const login = Buffer.from(base64, 'base64').toString('utf8');
  const colon = login.indexOf(':');
  return colon === -1 ? [login] : [login.slice(0, colon), login.slice(colon + 1)];
}

function fault(name: string, rule: string, message: string): WebhookHeaderFault {
  return { name, rule, message };
}
