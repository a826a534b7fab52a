const RULES: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  // Service keys: the mode stays readable, for support.
  [/\bdsp_(live|test)_[A-Za-z0-9_-]+/g, 'dsp_$1_[redacted]'],
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]+/gi, '$1 [redacted]'],
  // Vault tokens, current ones and those of servers before 1.10.
  [/\bhv[sbr]\.[A-Za-z0-9_-]+/g, '[redacted]'],
  [/(?<![\w.])[sbr]\.[A-Za-z0-9]{24,}(?![\w.])/g, '[redacted]'],
  // User and password of a URL. Its scheme stays, and is not matched: a search for one begins at every word.
  [/:\/\/[^\s/@"'<>]+@/g, '://[redacted]@'],
  // JSON web tokens. A token may follow a hyphen, so a word can have as many starts of one as characters: whether its end fits is
  // looked up once for the whole word.
  [/(?<![\w-])(?=[\w-]+\.[\w-]{8,}\.)([\w-]*?)\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g, '$1[redacted]'],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, '[redacted]'],
];

/**
 * Fast check: every shape above contains one of these characters, and most texts of a line are ids, words and paths without them.
 */
const SUSPECT = /[^\w/-]|dsp_/;

const LENGTH_MAX = 8_192;

/** Redacts text that has the shape of a credential, in linear time, and truncates at 8 KiB. */
export function scrub(text: string): string {
  let clean = text.length > LENGTH_MAX ? `${text.slice(0, LENGTH_MAX)}…` : text;
  if (!SUSPECT.test(clean)) return clean;
  for (const [pattern, replacement] of RULES) clean = clean.replace(pattern, replacement);
  return clean;
}
