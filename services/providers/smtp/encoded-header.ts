import { encodeWord } from 'nodemailer/lib/mime-funcs';

/** Characters between the delimiters of one encoded word; at most 75 with the delimiters (RFC 2047). */
const ENCODED_WORD_MAX = 52;
/**
 * The composer folds headers only at blanks, and adds a blank, and brackets around the id of a message. A line has 998 octets at
 * most (RFC 5322, 2.1.1).
 */
const UNFOLDABLE = /\S{990}/;
const ASCII = /^\p{ASCII}*$/u;

/** They have URLs and ids in angle brackets, in which no encoded word may be (RFC 2047, 5; RFC 2369, 2; RFC 2919, 3). */
const HAS_BRACKETS = /^(?:List-|(?:In-Reply-To|References)$)/i;
const BRACKETED = /(<[^<>]*>)/;

/**
 * Returns the value of a header in ASCII, to be sent as it is; undefined if the composer shall encode it. Text that already looks
 * like an encoded word is encoded again; otherwise a mail client would decode it to text that nobody sent, line breaks included. A
 * word that cannot be folded is encoded too.
 */
export function encodedHeader(name: string, value: string): string | undefined {
  if (UNFOLDABLE.test(value)) return encoded(value);
  if (!HAS_BRACKETS.test(name)) return value.includes('=?') ? encoded(value) : undefined;
  if (ASCII.test(value)) return undefined;
  const inAscii = value
    .split(BRACKETED)
    .map((part, position) => (position % 2 === 1 ? asciiBracketed(part) : encodedAround(part)))
    .join('');
  // An escape is three times as long as its octet.
  return UNFOLDABLE.test(inAscii) ? encoded(value) : inAscii;
}

function encoded(text: string): string {
  return encodeWord(text, 'Q', ENCODED_WORD_MAX);
}

/** Encodes the text between the blanks around it: they separate it from the brackets. */
function encodedAround(text: string): string {
  return ASCII.test(text) ? text : text.replace(/\S(?:.*\S)?/, encoded);
}

/** Returns the URL as clients resolve it; of anything else, the same bytes with an escape for each that is not ASCII. */
function asciiBracketed(part: string): string {
  if (ASCII.test(part)) return part;
  const inner = part.slice(1, -1);
  return `<${URL.parse(inner)?.href ?? inner.toWellFormed().replace(/\P{ASCII}+/gu, encodeURIComponent)}>`;
}
