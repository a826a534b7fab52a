const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;

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
  return {
    push(bytes) {
      const { length } = bytes;
      let inText = isInText;
      // Also what an escape stands before at the end of the last piece.
      let i = isEscaped ? 1 : 0;
      if (isEscaped && length > 0) isEscaped = false;
      for (; i < length; i += 1) {
        const byte = bytes[i];
        if (inText) {
          if (byte === QUOTE) inText = false;
          else if (byte === BACKSLASH) i += 1;
        } else if (byte === COMMA || byte === OPEN_ARRAY || byte === OPEN_OBJECT) marks += 1;
        else if (byte === QUOTE) inText = true;
      }
      isEscaped = i > length;
      isInText = inText;
    },
    marks: () => marks,
  };
}
