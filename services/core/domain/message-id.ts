import { createCipheriv, randomFillSync } from 'node:crypto';
import { AFTER_VARIANT, bytesOfUuidV4, isBelow, VARIANT } from './hidden-place.ts';
import { uuidOf, type MessageId } from './ids.ts';
import { mondayOf, weekOf } from './purge-day.ts';

/** Where the rows of a message are, in every table that has some. */
export type MessagePlace = {
  /** A whole number below 2^50, of this message alone. */
  readonly seq: number;
  /** The Monday (YYYY-MM-DD) on which its partition is dropped. */
  readonly purgeOn: string;
};

export type MessageIds = {
  /**
   * A fresh id for the place, unlike all that it was given before.
   * @throws RangeError where `seq` is no whole number below 2^50, or `purgeOn` no Monday between 2024 and 2102.
   */
  readonly encode: (place: MessagePlace) => MessageId;
  /**
   * The place that an id leads to; undefined for what is no UUIDv4. Any UUIDv4 leads somewhere: whether a message is
   * there and bears this very id, only its row can tell.
   */
  readonly decode: (id: string) => MessagePlace | undefined;
};

const SEQ_END = 2 ** 50;
const WEEK_END = 2 ** 12;
/** Ids whose first halves are made and encrypted at once: a call of the cipher costs hardly more for all than for one. */
const MADE_AT_ONCE = 64;
const HALF = 8;
const WHOLE = 16;

/**
 * Hides places in ids of the form UUIDv4, so that rows can lie in the order in which they were made, and an id says
 * neither how many messages there are nor when they go.
 *
 * The first half of an id is random. The second holds, after the variant's two bits, the week (12 bits) and `seq` (50
 * bits), xored with what AES-128 makes of the first half.
 * @param key 16 bytes, the same for as long as there are messages.
 */
export function createMessageIds(key: Buffer): MessageIds {
  const cipher = createCipheriv('aes-128-ecb', key, null).setAutoPadding(false);
  /** Each in a block of its own, whose second half is zero. */
  const halves = Buffer.alloc(MADE_AT_ONCE * WHOLE);
  let masks = Buffer.alloc(0);
  let used = MADE_AT_ONCE;

  function makeHalves(): void {
    randomFillSync(halves);
    for (let at = 0; at < halves.length; at += WHOLE) {
      halves[at + 6] = ((halves[at + 6] ?? 0) & 0x0f) | 0x40;
      halves.fill(0, at + HALF, at + WHOLE);
    }
    masks = cipher.update(halves);
    used = 0;
  }

  function maskOf(id: Buffer): Buffer {
    const block = Buffer.alloc(WHOLE);
    id.copy(block, 0, 0, HALF);
    return cipher.update(block);
  }

  return {
    encode({ seq, purgeOn }) {
      const week = weekOf(purgeOn);
      if (!isBelow(seq, SEQ_END) || !isBelow(week, WEEK_END)) {
        throw new RangeError(`no id can be made for message ${seq} of ${purgeOn}`);
      }
      if (used === MADE_AT_ONCE) makeHalves();
      const at = used++ * WHOLE;
      const high = ((week << 18) | (seq / 2 ** 32)) ^ masks.readUInt32BE(at);
      const low = seq ^ masks.readUInt32BE(at + 4);
      halves.writeUInt32BE(((high & AFTER_VARIANT) | VARIANT) >>> 0, at + HALF);
      halves.writeUInt32BE(low >>> 0, at + HALF + 4);
      return uuidOf(halves.subarray(at, at + WHOLE)) as MessageId;
    },
    decode(text) {
      const id = bytesOfUuidV4(text);
      if (id === undefined) return undefined;
      const mask = maskOf(id);
      const high = (id.readUInt32BE(8) ^ mask.readUInt32BE(0)) & AFTER_VARIANT;
      const low = (id.readUInt32BE(12) ^ mask.readUInt32BE(4)) >>> 0;
      return { seq: (high & 0x3_ffff) * 2 ** 32 + low, purgeOn: mondayOf(high >>> 18) };
    },
  };
}
