export const PUSH_DATA_BYTES_MAX = 4_096;

/** Names reserved by Firebase, and the one reserved by Apple. */
const RESERVED = /^(?:from|gcm|message_type|aps|google\..*|gcm\..*)$/;

/** A fault of a push message's data. The message states the rule and repeats no value. */
export type PushDataFault = { readonly rule: 'max' | 'reserved'; readonly message: string };

/** Converts values to texts, because push services accept only texts; other values are sent as their JSON. */
export function pushDataTexts(data: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [
      key,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );
}

/** Checks data against the rules of the push services: at most 4096 bytes of names and values as texts, no reserved name. */
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
