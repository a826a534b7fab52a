const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;
/** A text that is longer is searched for its end as a whole; for a shorter one that costs more than it saves. */
const SHORT_BYTES = 32;
/** How long one of many escapes is read byte by byte before the next search. */
const ESCAPED_BYTES = 4_096;

/** Counts what a JSON text is made of while its bytes arrive, so that it is known before it is parsed. */
export type JsonScan = {
  readonly push: (bytes: Uint8Array) => void;
  /**
   * Commas and opening brackets so far, and one. A text of `n` values has at most `2n`: each value but the first of its
   * container follows a comma, and each container is a value.
   */
  readonly marks: () => number;
};

export function createJsonScan(): JsonScan {
  let marks = 1;
  let isInText = false;
  let isEscaped = false;
  /** Goes on in a text. @returns where it has ended; the length where it has not, and one more where an escape hangs over. */
  function endOfText(bytes: Uint8Array, from: number): number {
    const { length } = bytes;
    let i = from;
    let stop = Math.min(length, i + SHORT_BYTES);
    while (i < length) {
      for (; i < stop; i += 1) {
        const byte = bytes[i];
        if (byte === QUOTE) {
          isInText = false;
          return i + 1;
        }
        if (byte === BACKSLASH) i += 1;
      }
      if (i >= length) break;
      const next = nextOf(bytes, i);
      stop = Math.min(length, next + (next - i < SHORT_BYTES ? ESCAPED_BYTES : SHORT_BYTES));
      i = next;
    }
    return i;
  }

  return {
    push(bytes) {
      const { length } = bytes;
      // Also what an escape stands before at the end of the last piece.
      let i = isEscaped && length > 0 ? 1 : 0;
      if (isInText) i = endOfText(bytes, i);
      while (i < length) {
        const byte = bytes[i];
        i += 1;
        if (byte === COMMA || byte === OPEN_ARRAY || byte === OPEN_OBJECT) marks += 1;
        else if (byte === QUOTE) {
          isInText = true;
          i = endOfText(bytes, i);
        }
      }
      isEscaped = i > length || (isEscaped && length === 0);
    },
    marks: () => marks,
  };
}

/** Where a text may end, or goes on with an escape; the length where it does neither. */
function nextOf(bytes: Uint8Array, from: number): number {
  const quote = bytes.indexOf(QUOTE, from);
  const end = quote === -1 ? bytes.length : quote;
  const escape = bytes.subarray(from, end).indexOf(BACKSLASH);
  return escape === -1 ? end : from + escape;
}
