import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto';
import { AppError } from '#core/domain/fault/app-error.ts';
import { canonicalJson } from '../routes/idempotency.ts';

/**
 * Opaque list positions, signed and encrypted because a row's number tells how much all tenants send. A cursor is valid only for the
 * list, tenant and filter that it was created for.
 */
export type Cursors = {
  /**
   * Returns the cursor of the next page; null on the last one.
   * @param list Everything that must be equal on the next page: route, tenant, filter (not `limit`).
   * @param position Where the next page begins; undefined on the last one.
   */
  readonly next: (list: unknown, position: number | string | object | undefined) => string | null;
  /**
   * Returns the position that `next` was given for the same list; undefined without a cursor.
   * @throws AppError `invalid_cursor`.
   */
  readonly position: <Position extends number | string | object>(
    list: unknown,
    cursor: string | undefined,
  ) => Position | undefined;
};

/** The MAC is the block that the cipher begins with, too: two positions never share one (as in RFC 5297). */
const MAC_BYTES = 16;
const CIPHER = 'aes-256-ctr';

export function createCursors(subkey: KeyObject): Cursors {
  const cipherKey = createSecretKey(
    new Uint8Array(hkdfSync('sha256', subkey, '', 'despatch:v1:cursor-cipher', 32)),
  );
  const sign = (list: unknown, position: string): Buffer =>
    createHmac('sha256', subkey)
      .update(`${canonicalJson(list)}\n${position}`)
      .digest()
      .subarray(0, MAC_BYTES);

  return {
    next: (list, at) => {
      if (at === undefined) return null;
      const position = JSON.stringify(at);
      const mac = sign(list, position);
      const cipher = createCipheriv(CIPHER, cipherKey, mac);
      return Buffer.concat([mac, cipher.update(position), cipher.final()]).toString('base64url');
    },
    position: <Position>(list: unknown, cursor: string | undefined) => {
      if (cursor === undefined) return undefined;
      const bytes = Buffer.from(cursor, 'base64url');
      if (bytes.length <= MAC_BYTES || bytes.toString('base64url') !== cursor) throw invalidCursor();
      const mac = bytes.subarray(0, MAC_BYTES);
      const cipher = createDecipheriv(CIPHER, cipherKey, mac);
      const position = Buffer.concat([cipher.update(bytes.subarray(MAC_BYTES)), cipher.final()]).toString();
      if (!timingSafeEqual(mac, sign(list, position))) throw invalidCursor();
      return JSON.parse(position) as Position;
    },
  };
}

function invalidCursor(): AppError {
  return new AppError('invalid_cursor', {
    details: [{ field: 'cursor', rule: 'cursor', message: 'Must be the nextCursor of this very list' }],
  });
}

/** Returns one page of `limit` rows; the caller read one row more to detect the last page. */
export function pageFrom<Row, Item>(
  rows: readonly Row[],
  limit: number,
  toItem: (row: Row) => Item,
  next: (last: Row) => string | null,
): { items: Item[]; nextCursor: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    items: page.map(toItem),
    nextCursor: rows.length > limit && last !== undefined ? next(last) : null,
  };
}
