const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;
/** Strings longer than this are searched with `indexOf`; for shorter ones that costs more than it saves. */
const SHORT_BYTES = 32;
/** After a dense run of escapes, this many bytes are read one by one before the next search. */
const ESCAPED_BYTES = 4_096;

/** Without a limit, a text of megabytes with an escape in each line would be searched to its end once for each of them. */
const SEARCHED_BYTES = 4_096;

/** Counts the values of a JSON text while its bytes arrive, so that the count is known before parsing. */
export type JsonScan = {
  readonly push: (bytes: Uint8Array) => void;
  /**
   * Returns the number of commas and opening brackets so far, plus one. A JSON text with `n` values has at most `2n`: each
   * value except the first of its container follows a comma, and each container is a value.
   */
  readonly marks: () => number;
};

export function createJsonScan(): JsonScan {
  let marks = 1;
  let isInText = false;
  let isEscaped = false;
  /**
   * Continues inside a string.
   * @returns the position after its end; the length if it does not end here, and one more if the chunk ends inside an escape.
   */
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
      // Skips the byte that is escaped by the end of the previous chunk.
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

/** Returns the position of the next quote or backslash, or one before it: a search reads no further than `SEARCHED_BYTES`. */
function nextOf(bytes: Uint8Array, from: number): number {
  const searched = Math.min(bytes.length, from + SEARCHED_BYTES);
  const quote = bytes.subarray(from, searched).indexOf(QUOTE);
  const end = quote === -1 ? searched : from + quote;
  const escape = bytes.subarray(from, end).indexOf(BACKSLASH);
  return escape === -1 ? end : from + escape;
}
