/** One broken rule, by the header's name. The message never repeats a value. */
export type WebhookHeaderFault = { readonly name: string; readonly rule: string; readonly message: string };

export const WEBHOOK_HEADERS_MAX = 10;
export const WEBHOOK_HEADER_CHARACTERS_MAX = 1_000;

const NAME = /^[A-Za-z0-9-]{1,64}$/;
const VALUE = /^[!-~](?:[ -~]*[!-~])?$/;
/** What the call itself says, what belongs to its connection, and what a browser or a proxy vouches for. */
const RESERVED =
  /^(?:host|content-.*|connection|transfer-encoding|te|trailer|upgrade|keep-alive|proxy-.*|expect|user-agent|cookie|webhook-.*|accept-encoding|sec-.*)$/i;
const SECRET = /auth|token|key|secret|pass|credential|signature|session/i;
/** Of a shorter value four characters would say too much. */
const SHOWN_FROM = 12;

/** What is wrong with the headers that a tenant adds to the calls of an endpoint. */
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

/** Whether a header's name says that its value is nobody's to read. */
export function isSecretHeader(name: string): boolean {
  return SECRET.test(name);
}

/** A header's value as it may be shown. No value that could be sent back as one: an ellipsis is no ASCII. */
export function shownHeader(name: string, value: string): string {
  if (!isSecretHeader(name)) return value;
  return value.length < SHOWN_FROM ? '…' : `…${value.slice(-4)}`;
}

/** Shorter texts are no secret, and would be found in every other word. */
const HIDDEN_FROM = 8;

/** What of the headers must not be kept where a receiver says it back: values, and what stands after a word such as `Bearer`. */
export function hiddenInHeaders(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    const whole = isSecretHeader(name) || value.length >= HIDDEN_FROM ? [value] : [];
    return [
      ...whole,
      ...value.split(/[ ,;]+/).filter((part) => part !== value && part.length >= HIDDEN_FROM),
    ];
  });
}

function fault(name: string, rule: string, message: string): WebhookHeaderFault {
  return { name, rule, message };
}
