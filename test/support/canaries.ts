import { createReadStream } from 'node:fs';
import type { Sql } from '#core/platform/postgres/postgres.ts';

/**
 * A secret that is planted for a test: long and random, so that finding it anywhere proves a leak.
 *
 * Use: plant secrets, run the system at LOG_LEVEL=debug, then create one search for them, pass it every output (`inText`,
 * `inFile`, `inTables`) and expect `hits()` to be empty. `legal` lists the places where a secret belongs, by their names, for
 * example `table messages.content` for a message's body.
 */
export type Canary = {
  /** Shown in reports; never the secret itself. */
  readonly name: string;
  /** At least 16 characters. */
  readonly secret: string;
  readonly legal?: readonly string[];
};

export type CanaryHit = {
  readonly canary: string;
  /** For example `log api-1`, `table attempts`, `column messages.content`. */
  readonly place: string;
  readonly form: Form;
};

export type CanarySearch = {
  readonly inText: (place: string, text: string | Buffer) => void;
  readonly inFile: (place: string, path: string) => Promise<void>;
  /**
   * Searches every table of the schema, as a superuser reads it. Places: `table <name>`, and `table <name>.<column>` where a
   * canary is legal.
   */
  readonly inTables: (sql: Sql, schema: string) => Promise<void>;
  /** Returns one hit for each canary, place and form. */
  readonly hits: () => CanaryHit[];
  /** Returns how many bytes were searched: a search of nothing proves nothing. */
  readonly bytesSeen: () => number;
};

/** Encodings in which a secret may leak: in a Basic header, a bytea column, a URL or a form. */
type Form = 'plain' | 'base64' | 'hex' | 'url';
type Needle = { readonly canary: Canary; readonly form: Form; readonly bytes: Buffer };

const SECRET_LENGTH_MIN = 16;
const ROWS_AT_ONCE = 500;

export function searchForCanaries(canaries: readonly Canary[]): CanarySearch {
  const needles = canaries.flatMap(needlesOf);
  const longest = Math.max(0, ...needles.map(({ bytes }) => bytes.length));
  const found = new Map<string, CanaryHit>();
  let bytesSeen = 0;

  function look(place: string, bytes: Buffer): void {
    for (const { canary, form, bytes: needle } of needles) {
      if (canary.legal?.includes(place) === true || !bytes.includes(needle)) continue;
      const hit = { canary: canary.name, place, form };
      found.set(JSON.stringify(hit), hit);
    }
  }

  function inText(place: string, text: string | Buffer): void {
    const bytes = Buffer.from(text);
    bytesSeen += bytes.length;
    look(place, bytes);
  }

  async function inStream(place: string, stream: AsyncIterable<Buffer | string>): Promise<void> {
    let end: Buffer = Buffer.alloc(0);
    for await (const chunk of stream) {
      const bytes = Buffer.from(chunk);
      bytesSeen += bytes.length;
      // A secret may be split across two chunks.
      const both = Buffer.concat([end, bytes]);
      look(place, both);
      end = both.subarray(Math.max(0, both.length - longest));
    }
  }

  return {
    inText,
    inFile: (place, path) => inStream(place, createReadStream(path, { highWaterMark: 4 * 1024 * 1024 })),
    async inTables(sql, schema) {
      const legal = new Set(canaries.flatMap(({ legal = [] }) => legal));
      for (const { relation, table, columns } of await tablesOf(sql, schema)) {
        const apart = columns.filter((column) => legal.has(`table ${table}.${column}`));
        const others = columns.filter((column) => !apart.includes(column));
        await copyOut([others, ...apart.map((column) => [column])], relation, table, apart);
      }

      async function copyOut(groups: string[][], relation: string, table: string, apart: string[]) {
        for (const group of groups.filter(({ length }) => length > 0)) {
          const [first = ''] = group;
          const place =
            apart.includes(first) && group.length === 1 ? `table ${table}.${first}` : `table ${table}`;
          // Not by COPY: the client never reads on if a stream's last rows fill its buffer and the end comes with them.
          const rows = sql<{ row: string }[]>`
            select concat_ws(chr(9), ${sql(group)}) as row from ${sql(`${schema}.${relation}`)}`;
          for await (const some of rows.cursor(ROWS_AT_ONCE)) {
            inText(place, some.map(({ row }) => row).join('\n'));
          }
        }
      }
    },
    hits: () => [...found.values()],
    bytesSeen: () => bytesSeen,
  };
}

type Table = { readonly relation: string; readonly table: string; readonly columns: string[] };

/** Returns the tables that contain rows; a partition has the name of its parent. */
async function tablesOf(sql: Sql, schema: string): Promise<Table[]> {
  return sql<Table[]>`
    select c.relname as relation, coalesce(p.relname, c.relname) as "table",
      array_agg(a.attname::text order by a.attnum) as columns
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_inherits i on i.inhrelid = c.oid
    left join pg_class p on p.oid = i.inhparent
    where c.relkind = 'r' and c.relnamespace = ${schema}::regnamespace
    group by c.oid, c.relname, p.relname order by 1`;
}

function needlesOf(canary: Canary): Needle[] {
  if (canary.secret.length < SECRET_LENGTH_MIN)
    throw new RangeError(`${canary.name} is too short to be searched for`);
  const secret = Buffer.from(canary.secret);
  const hex = secret.toString('hex');
  const forms: [Form, string][] = [
    ['plain', canary.secret],
    ['hex', hex],
    ['hex', hex.toUpperCase()],
    ...[encodeURIComponent(canary.secret), new URLSearchParams([['', canary.secret]]).toString().slice(1)]
      .filter((text, n, all) => text !== canary.secret && all.indexOf(text) === n)
      .map((text): [Form, string] => ['url', text]),
    // The bytes before a secret shift its base64 by 0, 1 or 2; the first and last characters depend on neighbouring bytes and are
    // left out.
    ...[0, 1, 2].map((shift): [Form, string] => {
      const text = Buffer.concat([Buffer.alloc(shift), secret])
        .toString('base64')
        .replaceAll('=', '');
      return ['base64', text.slice(shift === 0 ? 0 : 4, -4)];
    }),
  ];
  return forms.map(([form, text]) => ({ canary, form, bytes: Buffer.from(text) }));
}
