/** The default alphabet of GSM 03.38, one septet each. */
const BASIC =
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà';
/** Its extension table: an escape and the character, two septets. */
const EXTENSION = '\f^{}\\[~]|€';
/** Septets by UTF-16 code unit; 0 for characters in neither table. */
const SEPTETS = new Uint8Array(0x1_0000);
for (const character of BASIC) SEPTETS[character.charCodeAt(0)] = 1;
for (const character of EXTENSION) SEPTETS[character.charCodeAt(0)] = 2;

export const SMS_ENCODINGS = ['GSM-7', 'UCS-2'] as const;
export type SmsEncoding = (typeof SMS_ENCODINGS)[number];
export type SmsSegments = { readonly encoding: SmsEncoding; readonly segments: number };

/** Capacity of a single message and of each part of a longer one, whose header takes the rest: septets, or UTF-16 code units. */
const ROOM: Readonly<Record<SmsEncoding, { readonly single: number; readonly part: number }>> = {
  'GSM-7': { single: 160, part: 153 },
  'UCS-2': { single: 70, part: 67 },
};

/**
 * Returns the encoding and the number of parts of an sms: GSM-7 if every character is in the alphabet, else UCS-2. Packing is
 * greedy: neither an escaped character nor a surrogate pair is split over two parts. An empty text is one part.
 */
export function smsSegments(text: string): SmsSegments {
  const septets = septetsOf(text);
  const encoding = septets === undefined ? 'UCS-2' : 'GSM-7';
  const { single, part } = ROOM[encoding];
  // Fast path: most texts fit into one message.
  if ((septets ?? text.length) <= single) return { encoding, segments: 1 };
  return { encoding, segments: pack(sizesOf(text, encoding), part) };
}

/** Returns undefined if a character is outside the alphabet. */
function septetsOf(text: string): number | undefined {
  let total = 0;
  for (let i = 0; i < text.length; i += 1) {
    const septets = SEPTETS[text.charCodeAt(i)] as number;
    if (septets === 0) return undefined;
    total += septets;
  }
  return total;
}

/** Returns the size of each character. */
function sizesOf(text: string, encoding: SmsEncoding): number[] {
  return encoding === 'UCS-2'
    ? Array.from(text, (character) => character.length)
    : Array.from(text, (character) => SEPTETS[character.charCodeAt(0)] as number);
}

function pack(sizes: readonly number[], part: number): number {
  let segments = 1;
  let used = 0;
  for (const size of sizes) {
    if (used + size > part) {
      segments += 1;
      used = 0;
    }
    used += size;
  }
  return segments;
}
