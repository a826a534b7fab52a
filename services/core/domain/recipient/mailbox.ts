import emailAddresses from 'email-addresses';
import { asciiDomain } from './ascii-domain.ts';
import { isMailboxShaped } from './is-mailbox-shaped.ts';

export type Mailbox = { readonly name?: string; readonly address: string };

const ATEXT = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
const DOT_ATOM = `${ATEXT}+(?:\\.${ATEXT}+)*`;
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?';
const ADDRESS = `${DOT_ATOM}@${LABEL}(?:\\.${LABEL})*`;
/** Matches most addresses; the full grammar costs a hundred times as much. */
const PLAIN = new RegExp(`^${ADDRESS}$`);
/** A bare address in ASCII, without quotes, whose domain has a dot. Works in JavaScript and in Go's RE2. */
export const DOTTED_ADDRESS = new RegExp(`^${DOT_ATOM}@${LABEL}(?:\\.${LABEL})+$`);
const NAMED = new RegExp(`^(${ATEXT}+(?: ${ATEXT}+)*) <(${ADDRESS})>$`);
const ASCII = /^\p{ASCII}*$/u;
const DOTTED_I = '\u0130';
const LOCAL_DOT_ATOM = new RegExp(`^[^\\s"(),:;<>@[\\\\\\]]+$`, 'u');

/**
 * In UTF-16 code units: 320 code points, the maximum length of a message's recipient. The full grammar is parsed recursively; a
 * few thousand parentheses would overflow the stack.
 */
const MAILBOX_MAX = 640;

/**
 * Parses one RFC 5322 mailbox, such as `Ann Example <ann@example.com>`. Returns undefined for anything else, and for longer
 * texts.
 */
export function parseMailbox(text: string): Mailbox | undefined {
  if (text.length > MAILBOX_MAX) return undefined;
  if (PLAIN.test(text)) return { address: text };
  const named = NAMED.exec(text);
  if (named !== null) return { name: named[1] as string, address: named[2] as string };
  if (!isMailboxShaped(text)) return undefined;
  const parsed = emailAddresses.parseOneAddress({ input: text, rfc6532: true, startAt: 'mailbox' } as never);
  if (parsed === null || parsed.type !== 'mailbox' || !isDomain(parsed.domain)) return undefined;
  const address = `${quoteLocal(parsed.local)}@${parsed.domain}`;
  return parsed.name === null || parsed.name === '' ? { address } : { name: parsed.name, address };
}

/**
 * Returns the address in the form in which addresses are compared, if the text is only an address; undefined for anything else.
 * Its local part is in Unicode's normal form C, as RFC 6532 (3.1) recommends; its domain is in lower case, and in ASCII
 * (RFC 5890), so that both spellings of an internationalized domain are one recipient. Undefined too if that form is no address:
 * normal form C makes a semicolon of the Greek question mark.
 */
export function normalAddress(text: string): string | undefined {
  if (!isAddress(text)) return undefined;
  const at = text.lastIndexOf('@');
  const normal = `${text.slice(0, at).normalize('NFC')}@${normalDomain(text.slice(at + 1))}`;
  return normal === text || isAddress(normal) ? normal : undefined;
}

function isAddress(text: string): boolean {
  return parseMailbox(text)?.address === text;
}

/**
 * Returns the address in a form in which two spellings of it differ at most in case, which SQL ignores: of one in ASCII nothing is
 * changed, so that people are shown what they wrote. SQL has a single character for each one in lower case, and for the dotted
 * capital I it is an ASCII one: `b\u0130ll@` would be `bill@`, another person. In its full lower case the letter keeps the dot.
 */
export function comparableAddress(text: string): string {
  return ASCII.test(text) ? text : (normalAddress(text) ?? text).replaceAll(DOTTED_I, DOTTED_I.toLowerCase());
}

function normalDomain(domain: string): string {
  if (ASCII.test(domain)) return domain.toLowerCase();
  return asciiDomain(domain) ?? domain.normalize('NFC').toLowerCase();
}

/** Restores the quotes of a quoted local part, which the parser removes. */
function quoteLocal(local: string): string {
  return LOCAL_DOT_ATOM.test(local) ? local : `"${local.replace(/["\\]/g, '\\$&')}"`;
}

function isDomain(domain: string): boolean {
  return domain.split('.').every((label) => /^[^-\s](?:.*[^-\s])?$/u.test(label));
}
