import { createCipheriv, hkdfSync } from 'node:crypto';
import { bytesOfUuidV4, isBelow, VARIANT } from '../storage/hidden-place.ts';
import { uuidOf } from '../storage/ids.ts';
import type { MessagePlace } from '../storage/message-id.ts';
import { mondayOf, weekOf } from '../storage/purge-day.ts';

/** The place of an event's row. */
export type EventPlace = MessagePlace & {
  /**
   * The event's number in the history of its message: 0 for the acceptance, which has no row because the message's row contains
   * its facts. If `seq` is 0, `number` is the number of a tenant event. An integer below 2^53.
   */
  readonly number: number;
};

export type EventIds = {
  /**
   * Returns the ids of events, in the order of `places`; always the same for one place. One call for many costs a tenth of single
   * calls.
   * @throws RangeError if a number of a place is out of range, or `purgeOn` is no Monday between 2024 and 2102.
   */
  readonly encode: (places: readonly EventPlace[]) => string[];
  /**
   * Returns the place that an id encodes; undefined if the text is certainly no event id. About one in a hundred forged UUIDv4s
   * decodes to a place: only the row can show whether an event of the caller is there.
   */
  readonly decode: (id: string) => EventPlace | undefined;
};

const SEQ_END = 2 ** 50;
const WEEK_END = 2 ** 12;
const NUMBER_END = 2 ** 53;
/** Of the 61 bits of a half, those above the lower 32. */
const HIGH = 0x1fff_ffff;
/** Upper bits of a left half that are always zero: beside the number's bits it contains one bit of the week. */
const UNUSED = 0x1fc0_0000;
/** Four rounds suffice against an attacker who sees ids and chooses places; the others add a margin for about a microsecond. */
const ROUNDS = 8;

/**
 * Creates the codec that hides the places of events in UUIDv4 ids. An event is found by its id without an index of ids, and the
 * id reveals neither its message nor the number of events. The 122 variable bits are one permutation of number (53 bits, and
 * seven that are zero), week (12) and `seq` (50): a Feistel network with two halves of 61 bits, whose round function is AES-128
 * of a half and the round number.
 * @param key the 16 bytes that hide the places of messages. Event ids use a key of their own that is derived from it.
 */
export function createEventIds(key: Buffer): EventIds {
  const own = Buffer.from(hkdfSync('sha256', key, '', 'despatch:v1:event-id', 16));
  const cipher = createCipheriv('aes-128-ecb', own, null).setAutoPadding(false);

  /** Runs one round: XORs into `to` the encryption of `from`, for all ids at once. Each half is two words. */
  function mix(to: Uint32Array, from: Uint32Array, round: number): void {
    const blocks = Buffer.alloc(from.length * 8);
    for (let i = 0; i < from.length; i += 2) {
      blocks.writeUInt32BE(from[i] ?? 0, i * 8);
      blocks.writeUInt32BE(from[i + 1] ?? 0, i * 8 + 4);
      blocks.writeUInt8(round, i * 8 + 8);
    }
    const masks = cipher.update(blocks);
    for (let i = 0; i < to.length; i += 2) {
      to[i] = ((to[i] ?? 0) ^ masks.readUInt32BE(i * 8)) & HIGH;
      to[i + 1] = (to[i + 1] ?? 0) ^ masks.readUInt32BE(i * 8 + 4);
    }
  }

  return {
    encode(places) {
      const left = new Uint32Array(places.length * 2);
      const right = new Uint32Array(places.length * 2);
      for (const [i, { seq, purgeOn, number }] of places.entries()) {
        const week = weekOf(purgeOn);
        if (!isBelow(seq, SEQ_END) || !isBelow(week, WEEK_END) || !isBelow(number, NUMBER_END)) {
          throw new RangeError(`no id can be made for event ${number} of message ${seq} of ${purgeOn}`);
        }
        left.set([((week >>> 11) << 21) | (number / 2 ** 32), number], i * 2);
        right.set([((week & 0x7ff) << 18) | (seq / 2 ** 32), seq], i * 2);
      }
      for (let round = 0; round < ROUNDS; round += 2) {
        mix(left, right, round);
        mix(right, left, round + 1);
      }
      return places.map((_, i) => write(left.subarray(i * 2, i * 2 + 2), right.subarray(i * 2, i * 2 + 2)));
    },
    decode(text) {
      const id = bytesOfUuidV4(text);
      if (id === undefined) return undefined;
      const { left, right } = read(id);
      for (let round = ROUNDS - 2; round >= 0; round -= 2) {
        mix(right, left, round + 1);
        mix(left, right, round);
      }
      const [leftHigh = 0, number = 0] = left;
      const [rightHigh = 0, seq = 0] = right;
      if ((leftHigh & UNUSED) !== 0) return undefined;
      return {
        seq: (rightHigh & 0x3_ffff) * 2 ** 32 + seq,
        purgeOn: mondayOf(((leftHigh >>> 21) << 11) | (rightHigh >>> 18)),
        number: (leftHigh & 0x1f_ffff) * 2 ** 32 + number,
      };
    },
  };
}

/**
 * Writes the halves around the four version bits and the two variant bits; the left half's highest bit is stored beside the right
 * half.
 */
function write([leftHigh = 0, leftLow = 0]: Uint32Array, [rightHigh = 0, rightLow = 0]: Uint32Array): string {
  const id = Buffer.alloc(16);
  id.writeUInt32BE(leftLow, 0);
  id.writeUInt16BE((leftHigh >>> 12) & 0xffff, 4);
  id.writeUInt16BE((leftHigh & 0xfff) | 0x4000, 6);
  id.writeUInt32BE((((leftHigh >>> 28) << 29) | rightHigh | VARIANT) >>> 0, 8);
  id.writeUInt32BE(rightLow, 12);
  return uuidOf(id);
}

function read(id: Buffer): { readonly left: Uint32Array; readonly right: Uint32Array } {
  const middle = id.readUInt32BE(8);
  const leftHigh = (((middle >>> 29) & 1) << 28) | (id.readUInt16BE(4) << 12) | (id.readUInt16BE(6) & 0xfff);
  return {
    left: Uint32Array.of(leftHigh, id.readUInt32BE(0)),
    right: Uint32Array.of(middle & HIGH, id.readUInt32BE(12)),
  };
}
