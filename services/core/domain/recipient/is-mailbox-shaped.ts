/** Maximum number of words, signs, comments and blanks in a text; names of people and hosts have about a dozen. */
const PARTS_MAX = 60;

/**
 * The structure of a mailbox, with a letter for each part: an atom, a quoted string, a domain literal, or the sign itself. An
 * obsolete source route before an address consists only of signs, atoms and literals between the angle bracket and the colon.
 */
const DOMAIN = '(?:a(?:\\.a)*|l)';
const ADDRESS = `[aq](?:\\.[aq])*@${DOMAIN}`;
const SHAPE = new RegExp(`^(?:${ADDRESS}|[aq.]*<(?:[@,.al]*:)?${ADDRESS}>)$`);

/**
 * Matches one part; backslashes, brackets and parentheses outside of parts match none. A backslash quotes the sign after it, in a
 * domain literal too (RFC 5322, `obs-dtext`).
 */
const PART = /\s+|"(?:[^"\\]|\\.)*"|\[(?:[^[\]\\]|\\.)*\]|[.@<>,:]|[^\s"()<>[\]:;@\\,.]+/suy;

/**
 * Returns whether a text may be an RFC 5322 mailbox, judged only by its parts and their order, in linear time. The full grammar
 * tries all readings of an invalid text, which takes tens of milliseconds.
 */
export function isMailboxShaped(text: string): boolean {
  let shape = '';
  let parts = 0;
  for (let i = 0; i < text.length;) {
    parts += 1;
    if (parts > PARTS_MAX) return false;
    if (text[i] === '(') {
      const comment = endOfComment(text, i);
      if (comment === undefined) return false;
      parts += comment.nested;
      i = comment.end;
      continue;
    }
    PART.lastIndex = i;
    const part = PART.exec(text)?.[0];
    if (part === undefined) return false;
    const sign = signOf(part);
    // Every blank counts, because the full grammar backtracks over each.
    if (sign === '') parts += part.length - 1;
    shape += sign;
    i += part.length;
  }
  return parts <= PARTS_MAX && SHAPE.test(shape);
}

function signOf(part: string): string {
  const [first = ''] = part;
  if (first === '"') return 'q';
  if (first === '[') return 'l';
  if ('.@<>,:'.includes(first)) return first;
  return first.trim() === '' ? '' : 'a';
}

/** Returns undefined for an unterminated comment. */
function endOfComment(
  text: string,
  start: number,
): { readonly end: number; readonly nested: number } | undefined {
  let depth = 0;
  let nested = 0;
  for (let i = start; i < text.length; i += 1) {
    const sign = text[i];
    if (sign === '\\') i += 1;
    else if (sign === '(') {
      depth += 1;
      nested += 1;
    } else if (sign === ')') depth -= 1;
    if (depth === 0) return { end: i + 1, nested };
  }
  return undefined;
}
