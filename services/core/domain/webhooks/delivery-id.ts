import { createCipheriv, createHmac, createSecretKey } from 'node:crypto';
import { AFTER_VARIANT, bytesOfUuidV4, isBelow, VARIANT } from '../storage/hidden-place.ts';
import { uuidOf } from '../storage/ids.ts';

/** The place of a delivery: a webhook endpoint, and an event by its number in that endpoint's feed. */
export type DeliveryPlace = {
  /** The endpoint's number: an integer below 2^22. */
  readonly endpoint: number;
  /** An integer below 2^40. */
  readonly seq: number;
};

export type DeliveryIds = {
  /**
   * Returns the id of a delivery; always the same for one place.
   * @param endpointId binds the id to this endpoint.
   * @throws RangeError if a number of the place is out of range.
   */
  readonly encode: (endpointId: string, place: DeliveryPlace) => string;
  /**
   * Returns the place that an id encodes; undefined if it is no UUIDv4. Any UUIDv4 decodes to a place: it is the id of the
   * delivery there only if `encode` returns it.
   */
  readonly decode: (id: string) => DeliveryPlace | undefined;
};

const ENDPOINT_END = 2 ** 22;
const SEQ_END = 2 ** 40;

/**
 * Creates the codec that hides places of deliveries in UUIDv4 ids, like `createMessageIds` for messages, with the same key.
 *
 * The first half of an id is an HMAC of endpoint and number. The second half contains, after the variant's two bits, the
 * endpoint's number (22 bits) and `seq` (40 bits), XORed with the AES-128 encryption of the first half.
 * @param key 16 bytes; must stay the same for as long as deliveries exist.
 */
export function createDeliveryIds(key: Buffer): DeliveryIds {
  // A key object, because Node takes four times as long for an HMAC whose key is a buffer.
  const hmacKey = createSecretKey(key);
  const cipher = createCipheriv('aes-128-ecb', key, null).setAutoPadding(false);
  // Differs from the blocks of message ids, whose second half is zero, so that the masks differ.
  const block = Buffer.from('\0\0\0\0\0\0\0\0delivery', 'latin1');

  function maskOf(id: Buffer): Buffer {
    id.copy(block, 0, 0, 8);
    return cipher.update(block);
  }

  return {
    encode(endpointId, { endpoint, seq }) {
      if (!isBelow(endpoint, ENDPOINT_END) || !isBelow(seq, SEQ_END)) {
        throw new RangeError(`no id can be made for delivery ${seq} of endpoint ${endpoint}`);
      }
      const id = createHmac('sha256', hmacKey)
        .update(`delivery ${endpointId} ${seq}`)
        .digest()
        .subarray(0, 16);
      id.writeUInt8((id.readUInt8(6) & 0x0f) | 0x40, 6);
      const mask = maskOf(id);
      const high = ((endpoint << 8) | (seq / 2 ** 32)) ^ mask.readUInt32BE(0);
      const low = seq ^ mask.readUInt32BE(4);
      id.writeUInt32BE(((high & AFTER_VARIANT) | VARIANT) >>> 0, 8);
      id.writeUInt32BE(low >>> 0, 12);
      return uuidOf(id);
    },
    decode(text) {
      const id = bytesOfUuidV4(text);
      if (id === undefined) return undefined;
      const mask = maskOf(id);
      const high = (id.readUInt32BE(8) ^ mask.readUInt32BE(0)) & AFTER_VARIANT;
      const low = (id.readUInt32BE(12) ^ mask.readUInt32BE(4)) >>> 0;
      return { endpoint: high >>> 8, seq: (high & 0xff) * 2 ** 32 + low };
    },
  };
}
