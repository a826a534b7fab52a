import { isUtf8 } from 'node:buffer';
import { BLANK, BLANK_LINES_MAX } from './text-lines.ts';

/** One record of a CSV text, or the fault that makes it unreadable. */
export type CsvRecord = {
  /** The line on which the record begins, counted from 1. */
  readonly line: number;
  readonly cells: readonly string[];
  /** The format error; when it is set, the cells are meaningless. */
  readonly fault?: string;
  /** The start of the next record cannot be found, so this record is the last. */
  readonly isEnd?: true;
};

const [QUOTE, COMMA, LF, CR] = [0x22, 0x2c, 0x0a, 0x0d];
const BOM = Buffer.from('\u{feff}');

/**
 * Parses RFC 4180 one record at a time, also with LF line breaks; empty lines are skipped. Reads each byte once, whatever
 * the input, and rejects a record longer than `bytesMax`.
 */
export function* csvRecords(bytes: Buffer, bytesMax: number): Generator<CsvRecord, void> {
  let at = bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
  let line = 1;
  let blank = 0;
  while (at < bytes.length) {
    const [start, begunOn] = [at, line];
    const most = start + bytesMax;
    const cells: string[] = [];
    let fault: string | undefined;
    for (;;) {
      const from = at;
      if (bytes[at] === QUOTE) {
        const end = closingQuote(bytes, at + 1, most);
        if (end === undefined) {
          yield { line: begunOn, cells: [], fault: 'A quote is not closed', isEnd: true };
          return;
        }
        const text = bytes.toString('utf8', from + 1, end);
        cells.push(text.replaceAll('""', '"'));
        line += text.split('\n').length - 1;
        at = end + 1;
        if (!endsCell(bytes, at)) fault = 'A quoted cell goes on after its quote';
      } else {
        for (; at <= most && !endsCell(bytes, at); at++) {
          const byte = bytes[at];
          if (byte === QUOTE) fault = 'A quote stands within a cell that does not begin with one';
          else if (byte === CR) fault = 'A carriage return stands without a line feed';
        }
        cells.push(bytes.toString('utf8', from, at));
      }
      if (at > most) fault = `Is longer than ${bytesMax} bytes`;
      if (fault !== undefined || bytes[at] !== COMMA) break;
      at++;
    }
    // After a fault the rest of the line is skipped, and quotes in it have no meaning.
    const end = bytes[at] === LF || fault === undefined ? at : bytes.indexOf(LF, at);
    const next = end === -1 ? bytes.length : bytes[end] === CR ? end + 2 : end + 1;
    at = next;
    line++;
    if (fault === undefined && !isUtf8(bytes.subarray(start, end))) fault = 'Is not valid UTF-8';
    if (fault !== undefined) yield { line: begunOn, cells: [], fault };
    else if (end > start) yield { line: begunOn, cells };
    else if (++blank > BLANK_LINES_MAX) yield { line: begunOn, cells: [], fault: BLANK };
  }
}

/** Returns whether the byte at this position ends a cell. */
function endsCell(bytes: Buffer, at: number): boolean {
  const byte = bytes[at];
  if (byte === CR) return at + 1 === bytes.length || bytes[at + 1] === LF;
  return byte === COMMA || byte === LF || byte === undefined;
}

/** Undefined when there is no closing quote before the limit. Two quotes are one quote within the cell. */
function closingQuote(bytes: Buffer, from: number, before: number): number | undefined {
  const near = bytes.subarray(0, before);
  for (let at = near.indexOf(QUOTE, from); at !== -1; at = near.indexOf(QUOTE, at + 2)) {
    if (bytes[at + 1] !== QUOTE) return at;
  }
  return undefined;
}
