/** The default alphabet of GSM 03.38, one septet each. */
const BASIC = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
);
/** Its extension table: an escape and the character, two septets. */
const EXTENSION = new Set('\f^{}\\[~]|€');

export const SMS_ENCODINGS = ['GSM-7', 'UCS-2'] as const;
export type SmsEncoding = (typeof SMS_ENCODINGS)[number];
export type SmsSegments = { readonly encoding: SmsEncoding; readonly segments: number };

/** Room for one message and for each part of a longer one, whose header takes the rest: septets, or UTF-16 code units. */
const ROOM: Readonly<Record<SmsEncoding, { readonly single: number; readonly part: number }>> = {
  'GSM-7': { single: 160, part: 153 },
  'UCS-2': { single: 70, part: 67 },
};

/**
 * How a text travels as sms: GSM-7 when every character is in the alphabet, else UCS-2, and in how many parts.
 * Greedy packing: neither an escaped character nor a surrogate pair is split over two parts. An empty text is one part.
 */
export function smsSegments(text: string): SmsSegments {
  const gsm = gsmSizes(text);
  return gsm === undefined
    ? {
        encoding: 'UCS-2',
        segments: pack(
          Array.from(text, (character) => character.length),
          ROOM['UCS-2'],
        ),
      }
    : { encoding: 'GSM-7', segments: pack(gsm, ROOM['GSM-7']) };
}

/** Septets of each character, undefined when one is outside the alphabet. */
function gsmSizes(text: string): number[] | undefined {
  const sizes: number[] = [];
  for (const character of text) {
    if (BASIC.has(character)) sizes.push(1);
    else if (EXTENSION.has(character)) sizes.push(2);
    else return undefined;
  }
  return sizes;
}

function pack(
  sizes: readonly number[],
  { single, part }: { readonly single: number; readonly part: number },
): number {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (total <= single) return 1;
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
