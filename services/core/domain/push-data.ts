export const PUSH_DATA_BYTES_MAX = 4_096;

/** Names that Firebase keeps for itself, and the one that Apple does. */
const RESERVED = /^(?:from|gcm|message_type|aps|google\..*|gcm\..*)$/;

/** What is wrong with a push message's data. The message states the rule and repeats no value. */
export type PushDataFault = { readonly rule: 'max' | 'reserved'; readonly message: string };

/** Push services take texts only; anything else travels as its JSON. */
export function pushDataTexts(data: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [
      key,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );
}

/** Holds data to what the push services take: 4096 bytes of names and values as texts, no reserved name. */
export function pushDataFault(data: Readonly<Record<string, unknown>>): PushDataFault | undefined {
  const texts = Object.entries(pushDataTexts(data));
  if (texts.some(([key]) => RESERVED.test(key))) {
    const message =
      'Must not have a reserved key: from, gcm, message_type, aps, or one that begins with google. or gcm.';
    return { rule: 'reserved', message };
  }
  const bytes = texts.reduce((sum, [key, text]) => sum + Buffer.byteLength(key) + Buffer.byteLength(text), 0);
  return bytes <= PUSH_DATA_BYTES_MAX
    ? undefined
    : { rule: 'max', message: `Must have at most ${PUSH_DATA_BYTES_MAX} bytes of keys and values in all` };
}
