const MARK = '[redacted]';
const TEXT_LENGTH_MAX = 300;

// oxlint-disable-next-line no-control-regex -- control characters are what is removed here
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;
/**
 * Numbers in E.164 form and mail addresses, which provider texts often repeat. The quantifiers are bounded, so matching
 * stays fast on any text.
 */
const ADDRESS = /\+[1-9]\d{6,14}|[^\s@<>"'(),:;]{1,64}@[^\s@<>"'(),:;]{1,255}/g;

/** Makes a provider's text safe to store. */
export type Redactor = (text: string) => string;

/**
 * Returns a function that removes secrets in all their wire encodings, recipients and addresses from texts, replaces
 * control characters with a space and cuts the text to `lengthMax` characters (default 300). The encodings are computed
 * once for all texts of a call.
 * @param hidden the account's secrets and the recipient.
 */
export function createRedactor(hidden: readonly string[], lengthMax = TEXT_LENGTH_MAX): Redactor {
  const spellings = [...new Set(hidden.flatMap(spellingsOf))]
    .filter((one) => one !== '')
    .toSorted((a, b) => b.length - a.length);
  return (text) => {
    const withoutRaw = replaceAll(text, spellings).replace(CONTROL, ' ');
    const clean = replaceAll(withoutRaw, spellings).replace(ADDRESS, MARK).trim();
    // A cut inside a surrogate pair leaves a lone surrogate, which the database does not accept.
    return clean
      .slice(0, lengthMax)
      .replace(/[\ud800-\udbff]$/, '')
      .toWellFormed();
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

function replaceAll(text: string, values: readonly string[]): string {
  return values.reduce((left, value) => left.replaceAll(value, MARK), text);
}
