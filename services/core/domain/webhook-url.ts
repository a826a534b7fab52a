export type WebhookUrlRules = {
  /** Whether the operator lets events travel without TLS. */
  readonly allowHttp: boolean;
  /** Ports that may be named for any host. */
  readonly ports: readonly number[];
  /** Whether a host has every port open, or may have: by the operator, for the ranges that its addresses are in. */
  readonly isOpenHost: (host: string) => boolean;
  /** Whether a host is an address, however it is written, that no call may go to. */
  readonly isBlockedHost: (host: string) => boolean;
};

/** Why no event can be sent to a URL. */
export type WebhookUrlFault = {
  readonly rule: 'url' | 'https' | 'port' | 'url_blocked';
  readonly message: string;
};

/** An authority after the scheme, and nothing that a parser would read as something else than what stands there. */
const PLAIN = /^https?:\/\/[^\s\\/?#\p{Cc}][^\s\\#\p{Cc}]*$/iu;
const LOCAL = /(?:^|\.)localhost$/;

/** What is wrong with the URL of an endpoint; undefined for a good one. What its name resolves to is not asked here. */
export function webhookUrlFault(text: string, rules: WebhookUrlRules): WebhookUrlFault | undefined {
  const url = PLAIN.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username !== '' || url.password !== '' || hasUser(text)) {
    return {
      rule: 'url',
      message: 'Must be an absolute https URL without a user, a password, a fragment or blanks',
    };
  }
  if (url.protocol === 'http:' && !rules.allowHttp) return { rule: 'https', message: 'Must be an https URL' };
  const name = url.hostname.replace(/\.$/, '');
  const host = LOCAL.test(name) ? '127.0.0.1' : name;
  if (rules.isBlockedHost(host))
    return { rule: 'url_blocked', message: 'Must not name a private, local or special address' };
  if (rules.ports.includes(portOf(url)) || rules.isOpenHost(host)) return undefined;
  return { rule: 'port', message: `Must be on port ${rules.ports.join(' or ')}: no other one is called` };
}

/** Ports that endpoints are called on, where their addresses are in no range that the operator has opened. */
export function webhookPorts(allowHttp: boolean, more: readonly number[]): number[] {
  return [...new Set([443, ...(allowHttp ? [80] : []), ...more])];
}

/** A URL as those may see it who may not change it: the values of its query may be secrets. */
export function shownUrl(text: string): string {
  const start = text.indexOf('?') + 1;
  if (start === 0) return text;
  const fields = text.slice(start).split('&');
  return text.slice(0, start) + fields.map((field) => `${/^[^=]*=/.exec(field)?.[0] ?? ''}…`).join('&');
}

/** Shorter texts are no secret, and would be found in every other word. */
const HIDDEN_FROM = 8;

/** What of a URL must not be kept where a receiver says it back: the values of its query, as written and as meant. */
export function hiddenInUrl(text: string): string[] {
  const start = text.indexOf('?') + 1;
  if (start === 0) return [];
  return text
    .slice(start)
    .split('&')
    .map((field) => field.replace(/^[^=]*=/, ''))
    .flatMap((value) => [value, new URLSearchParams(`v=${value}`).get('v') ?? ''])
    .filter((value, i, all) => value.length >= HIDDEN_FROM && all.indexOf(value) === i);
}

function portOf({ port, protocol }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

/** An empty user, too, which a parsed URL no longer shows. */
function hasUser(text: string): boolean {
  return (
    text
      .replace(/^https?:\/\//i, '')
      .split(/[/?]/, 1)[0]
      ?.includes('@') === true
  );
}
