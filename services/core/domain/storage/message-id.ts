import { createCipheriv, randomFillSync } from 'node:crypto';
import { AFTER_VARIANT, bytesOfUuidV4, isBelow, VARIANT } from './hidden-place.ts';
import { uuidOf, type MessageId } from './ids.ts';
import { mondayOf, weekOf } from './purge-day.ts';

/** The place of a message's rows, the same in every table that has some. */
export type MessagePlace = {
  /** An integer below 2^50, unique to this message. */
  readonly seq: number;
  /** The Monday (YYYY-MM-DD) on which its partition is dropped. */
  readonly purgeOn: string;
};

export type MessageIds = {
  /**
   * Returns a new id for the place, different from all earlier ones.
   * @throws RangeError if `seq` is no integer below 2^50, or `purgeOn` is no Monday between 2024 and 2102.
   */
  readonly encode: (place: MessagePlace) => MessageId;
  /**
   * Returns the place that an id encodes; undefined if it is no UUIDv4. Any UUIDv4 decodes to a place: only the row can show
   * whether a message with this id is there.
   */
  readonly decode: (id: string) => MessagePlace | undefined;
};

const SEQ_END = 2 ** 50;
const WEEK_END = 2 ** 12;
/** Ids whose first halves are generated and encrypted together: one call of the cipher costs hardly more for all than for one. */
const MADE_AT_ONCE = 64;
const HALF = 8;
const WHOLE = 16;

/**
 * Creates the codec that hides places in UUIDv4 ids. Rows can be stored in the order of their creation, while an id reveals
 * neither the number of messages nor when they are purged.
 *
 * The first half of an id is random. The second half contains, after the variant's two bits, the week (12 bits) and `seq` (50
 * bits), XORed with the AES-128 encryption of the first half.
 * @param key 16 bytes; must stay the same for as long as messages exist.
 */
export function createMessageIds(key: Buffer): MessageIds {
  const cipher = createCipheriv('aes-128-ecb', key, null).setAutoPadding(false);
  /** One block per first half; the second half of each block is zero. */
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
