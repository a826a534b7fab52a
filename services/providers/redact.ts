import { flatCopy } from '#core/domain/text/flat-copy.ts';
import { createWordHider } from './hide-words.ts';
import { vendorText } from './vendor-text.ts';

const MARK = '[redacted]';
const TEXT_LENGTH_MAX = 300;
/** Characters of a text that are searched. A vendor's call can hold a text of megabytes, of which only the start is kept. */
const SEARCHED_MAX = 4_096;

/**
 * The most texts that are searched for, and their characters. Each is spelled in some nine ways, and a tenant that wants to keep the
 * worker busy can have both a message of thousands of texts and a gateway that answers with a long one.
 */
const HIDDEN_MAX = 250;
const HIDDEN_CHARACTERS_MAX = 65_536;

// oxlint-disable-next-line no-control-regex -- control characters are what is removed here
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;
/**
 * Mail addresses and numbers in E.164 form, which provider texts often repeat. A mail address is matched only from the start
 * of its word, so each word is searched for an `@` once; the quantifiers of a number are bounded.
 */
const ADDRESS = /(?<![^\s@<>"'(),:;])[^\s@<>"'(),:;]+(?:@[^\s@<>"'(),:;]+)+|\+[1-9]\d{6,14}/g;
/** Stands for a secret until the text is cut. One character, so that replacing never lengthens a text; not a valid one. */
const PLACEHOLDER = '\uffff';

/** Makes a provider's text safe to store. */
export type Redactor = (text: string) => string;

/**
 * Returns a function that removes secrets in all their wire encodings, recipients and addresses from texts, replaces
 * control characters with a space and cuts the text to `lengthMax` characters (default 300). The encodings are computed
 * once for all texts of a call. With more than 250 texts to hide or 65,536 characters of them, or if finding them in a text takes
 * too long, nothing of the text is kept.
 * @param hidden the account's secrets and the recipient.
 */
export function createRedactor(hidden: readonly string[], lengthMax = TEXT_LENGTH_MAX): Redactor {
  const distinct = new Set(hidden);
  const characters = [...distinct].reduce((sum, { length }) => sum + length, 0);
  if (distinct.size > HIDDEN_MAX || characters > HIDDEN_CHARACTERS_MAX) return hideAll;
  const spellings = [...new Set([...distinct].flatMap(spellingsOf))];
  const longest = spellings.reduce((max, { length }) => Math.max(max, length), 0);
  const hide = createWordHider(spellings, PLACEHOLDER);
  return (text) => {
    const start = text.slice(0, SEARCHED_MAX + longest);
    const withoutRaw = hide(start)?.replace(CONTROL, ' ');
    const hiding = withoutRaw === undefined ? undefined : hide(withoutRaw);
    if (hiding === undefined) return hideAll(text);
    // A secret that the cut divides is not found, and its first part is at most this far from the end.
    const whole = start === text ? hiding : hiding.slice(0, Math.max(0, hiding.length - longest));
    const clean = whole.replaceAll(PLACEHOLDER, MARK).replace(ADDRESS, MARK).trim();
    return flatCopy(vendorText(clean, lengthMax));
  };
}

/** Redacts a single text. */
export function redact(text: string, hidden: readonly string[]): string {
  return createRedactor(hidden)(text);
}

/** Returns every string inside an account's secrets, at any depth. */
export function secretStrings(secrets: unknown): string[] {
  if (typeof secrets === 'string') return [secrets];
  if (typeof secrets !== 'object' || secrets === null) return [];
  return Object.values(secrets).flatMap(secretStrings);
}

function spellingsOf(value: string): string[] {
  const base64 = Buffer.from(value).toString('base64');
  return [
    value,
    // A provider may repeat single lines of a PEM key.
    ...value.split(/[\r\n]+/).filter((line) => line.length >= 16 && !line.startsWith('-----')),
    value.replace(CONTROL, ' '),
    encodeURIComponent(value.toWellFormed()),
    new URLSearchParams({ v: value }).toString().slice(2),
    JSON.stringify(value).slice(1, -1),
    value.length < 4 ? value : base64,
    value.length < 4 ? value : base64.replace(/=+$/, ''),
    value.startsWith('+') ? value.slice(1) : value,
  ];
}

function hideAll(text: string): string {
  return text.trim() === '' ? '' : MARK;
}
