import { calledHost, HOST_BLOCKED, type IsBlockedHost } from '../account/tenant-host.ts';
import { REDACTED_LENGTH_MIN } from './redacted-length.ts';

export type WebhookUrlRules = {
  /** Whether the operator permits deliveries without TLS. */
  readonly allowHttp: boolean;
  /** Ports that are allowed for any host. */
  readonly ports: readonly number[];
  /** Whether every port of a host is allowed, or may be: by the operator, for the ranges that contain its addresses. */
  readonly isOpenHost: (host: string) => boolean;
  readonly isBlockedHost: IsBlockedHost;
};

/** Why no event can be sent to a URL. */
export type WebhookUrlFault = {
  readonly rule: 'url' | 'https' | 'port' | 'url_blocked';
  readonly message: string;
};

/** An authority after the scheme, and no characters that a parser would interpret differently from how they read. */
const PLAIN = /^https?:\/\/[^\s\\/?#\p{Cc}][^\s\\#\p{Cc}]*$/iu;

/** Returns the fault of an endpoint's URL; undefined for a valid one. The host name is not resolved here. */
export function webhookUrlFault(text: string, rules: WebhookUrlRules): WebhookUrlFault | undefined {
  const url = PLAIN.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username !== '' || url.password !== '' || hasUser(text)) {
    return {
      rule: 'url',
      message: 'Must be an absolute https URL without a user, a password, a fragment or blanks',
    };
  }
  if (url.protocol === 'http:' && !rules.allowHttp) return { rule: 'https', message: 'Must be an https URL' };
  const host = calledHost(url.hostname);
  if (rules.isBlockedHost(host)) return HOST_BLOCKED;
  if (rules.ports.includes(portOf(url)) || rules.isOpenHost(host)) return undefined;
  return { rule: 'port', message: `Must be on port ${rules.ports.join(' or ')}: no other one is called` };
}

/** Returns the ports on which endpoints are called if their addresses are in no range that the operator has opened. */
export function webhookPorts(allowHttp: boolean, more: readonly number[]): number[] {
  return [...new Set([443, ...(allowHttp ? [80] : []), ...more])];
}

/** Returns a URL for readers who may not change it: the values of its query are masked, because they may be secrets. */
export function shownUrl(text: string): string {
  const start = text.indexOf('?') + 1;
  if (start === 0) return text;
  const fields = text.slice(start).split('&');
  return text.slice(0, start) + fields.map((field) => `${/^[^=]*=/.exec(field)?.[0] ?? ''}…`).join('&');
}

/**
 * Returns the texts to redact if a receiver repeats the URL: the values of its query as written, as sent (with more escapes), and
 * decoded.
 */
export function redactionsOfUrl(text: string): string[] {
  const written = queryValues(text);
  const sent = queryValues(URL.parse(text)?.search ?? '');
  const decoded = written.map((value) => new URLSearchParams(`v=${value}`).get('v') ?? '');
  return [...new Set([...written, ...sent, ...decoded])].filter(
    ({ length }) => length >= REDACTED_LENGTH_MIN,
  );
}

function queryValues(url: string): string[] {
  const start = url.indexOf('?') + 1;
  if (start === 0) return [];
  const fields = url.slice(start).split('&');
  return fields.map((field) => field.replace(/^[^=]*=/, ''));
}

function portOf({ port, protocol }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

/** Returns whether the URL contains a user, including an empty one, which a parsed URL no longer shows. */
function hasUser(text: string): boolean {
  return (
    text
      .replace(/^https?:\/\//i, '')
      .split(/[/?]/, 1)[0]
      ?.includes('@') === true
  );
}
