import { isUtf8 } from 'node:buffer';

/** A non-blank line of a text, or the fault that makes it unreadable. */
export type TextLine = { readonly line: number; readonly text: string; readonly fault?: string };

/** More blank lines are faults, so that whoever reads the lines can pause and end between them. */
export const BLANK_LINES_MAX = 10_000;
export const BLANK = `Is blank, as ${BLANK_LINES_MAX} lines before it`;
const LF = 0x0a;
const BOM = Buffer.from('\u{feff}');

/** Reads UTF-8 line by line; a line longer than `bytesMax` is a fault. */
export function* textLines(bytes: Buffer, bytesMax: number): Generator<TextLine, void> {
  let at = bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
  let blank = 0;
  for (let line = 1; at < bytes.length; line++) {
    const found = bytes.indexOf(LF, at);
    const part = bytes.subarray(at, found === -1 ? bytes.length : found);
    at += part.length + 1;
    if (part.length > bytesMax) yield { line, text: '', fault: `Is longer than ${bytesMax} bytes` };
    else if (!isUtf8(part)) yield { line, text: '', fault: 'Is not valid UTF-8' };
    else {
      const text = part.toString('utf8').trim();
      if (text !== '') yield { line, text };
      else if (++blank > BLANK_LINES_MAX) yield { line, text, fault: BLANK };
    }
  }
}
