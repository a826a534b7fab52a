import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto';
import { AppError } from '#core/domain/app-error.ts';
import { canonicalJson } from './idempotency.ts';

/** Opaque, signed list positions. A cursor is valid only for the list, tenant and filter that it was created for. */
export type Cursors = {
  /** @param list Everything that must be equal on the next page: route, tenant, filter (not `limit`). */
  readonly seal: (list: unknown, position: string) => string;
  /** @throws AppError `invalid_cursor`. */
  readonly open: (list: unknown, cursor: string) => string;
};

const MAC_BYTES = 16;

export function createCursors(subkey: KeyObject): Cursors {
  const sign = (list: unknown, position: string): Buffer =>
    createHmac('sha256', subkey)
      .update(`${canonicalJson(list)}\n${position}`)
      .digest()
      .subarray(0, MAC_BYTES);

  return {
    seal: (list, position) =>
      Buffer.concat([sign(list, position), Buffer.from(position)]).toString('base64url'),
    open: (list, cursor) => {
      const bytes = Buffer.from(cursor, 'base64url');
      const position = bytes.subarray(MAC_BYTES).toString();
      const isOurs =
        bytes.length > MAC_BYTES &&
        bytes.toString('base64url') === cursor &&
        timingSafeEqual(bytes.subarray(0, MAC_BYTES), sign(list, position));
      if (!isOurs) {
        throw new AppError('invalid_cursor', {
          details: [{ field: 'cursor', rule: 'cursor', message: 'Must be the nextCursor of this very list' }],
        });
      }
      return position;
    },
  };
}

/** Returns one page of `limit` rows; the caller read one row more to detect the last page. */
export function pageFrom<Row, Item>(
  rows: readonly Row[],
  limit: number,
  toItem: (row: Row) => Item,
  seal: (last: Row) => string,
): { items: Item[]; nextCursor: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    items: page.map(toItem),
    nextCursor: rows.length > limit && last !== undefined ? seal(last) : null,
  };
}
