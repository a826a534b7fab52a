/** Words, signs, comments and blanks between them, of one text; names of people and hosts have a dozen. */
const PARTS_MAX = 60;

/**
 * What a mailbox consists of, a letter for each part: an atom, a quoted string, a domain literal, or the sign itself. A route
 * before an address, as mails had it once, is all of signs between the angle and the colon.
 */
const DOMAIN = '(?:a(?:\\.a)*|l)';
const ADDRESS = `[aq](?:\\.[aq])*@${DOMAIN}`;
const SHAPE = new RegExp(`^(?:${ADDRESS}|[aq.]*<(?:[@,.al]*:)?${ADDRESS}>)$`);

/** A part each; backslashes, brackets and parentheses elsewhere are of none. */
const PART = /\s+|"(?:[^"\\]|\\.)*"|\[[^[\]]*\]|[.@<>,:]|[^\s"()<>[\]:;@\\,.]+/suy;

/**
 * Whether a text may be an RFC 5322 mailbox, by its parts and their order alone. In time that grows with the text's length: the
 * full grammar tries all ways to read what is none, for tens of milliseconds.
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
    // The full grammar tries each blank anew.
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

/** Undefined for a comment without an end. */
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
