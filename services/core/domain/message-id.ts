import { createCipheriv, randomUUID } from 'node:crypto';
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

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const SEQ_END = 2 ** 50;
const WEEK_END = 2 ** 12;
/** The two bits that are the same in every UUIDv4, and the thirty after them. */
const VARIANT = 0x8000_0000;
const AFTER_VARIANT = 0x3fff_ffff;

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
  const block = Buffer.alloc(16);

  function maskOf(id: Buffer): Buffer {
    id.copy(block, 0, 0, 8);
    return cipher.update(block);
  }

  return {
    encode({ seq, purgeOn }) {
      const week = weekOf(purgeOn);
      if (!isBelow(seq, SEQ_END) || !isBelow(week, WEEK_END)) {
        throw new RangeError(`no id can be made for message ${seq} of ${purgeOn}`);
      }
      const id = bytesOf(randomUUID());
      const mask = maskOf(id);
      const high = ((week << 18) | (seq / 2 ** 32)) ^ mask.readUInt32BE(0);
      const low = seq ^ mask.readUInt32BE(4);
      id.writeUInt32BE(((high & AFTER_VARIANT) | VARIANT) >>> 0, 8);
      id.writeUInt32BE(low >>> 0, 12);
      return uuidOf(id) as MessageId;
    },
    decode(text) {
      if (!UUID_V4.test(text)) return undefined;
      const id = bytesOf(text);
      const mask = maskOf(id);
      const high = (id.readUInt32BE(8) ^ mask.readUInt32BE(0)) & AFTER_VARIANT;
      const low = (id.readUInt32BE(12) ^ mask.readUInt32BE(4)) >>> 0;
      return { seq: (high & 0x3_ffff) * 2 ** 32 + low, purgeOn: mondayOf(high >>> 18) };
    },
  };
}

function isBelow(n: number, end: number): boolean {
  return Number.isSafeInteger(n) && n >= 0 && n < end;
}

function bytesOf(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex');
}
