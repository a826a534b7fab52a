import { createReadStream } from 'node:fs';
import type { Sql } from '#core/platform/postgres/postgres.ts';

/**
 * A secret that was planted on purpose: long and random, so that finding it anywhere proves that it leaked.
 *
 * Use: plant secrets, let the system work at LOG_LEVEL=debug, then make one search over them, show it every output
 * (`inText`, `inFile`, `inTables`) and expect `hits()` to be empty. `legal` says where a secret has to stand, as the
 * places are called: `table messages.content` for a message's body.
 */
export type Canary = {
  /** For people; never the secret itself. */
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
  /** Every table of the schema, as a superuser sees it. Places: `table <name>`, and `table <name>.<column>` where a canary may stand. */
  readonly inTables: (sql: Sql, schema: string) => Promise<void>;
  /** One for each canary, place and form. */
  readonly hits: () => CanaryHit[];
  /** What was looked at, in bytes: a search that saw nothing proves nothing. */
  readonly bytesSeen: () => number;
};

/** Secrets travel in other forms too: in a Basic header, in a bytea column, in an address or a form. */
type Form = 'plain' | 'base64' | 'hex' | 'url';
type Needle = { readonly canary: Canary; readonly form: Form; readonly bytes: Buffer };

const SECRET_LENGTH_MIN = 16;

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

  async function inStream(place: string, stream: AsyncIterable<Buffer | string>): Promise<void> {
    let end: Buffer = Buffer.alloc(0);
    for await (const chunk of stream) {
      const bytes = Buffer.from(chunk);
      bytesSeen += bytes.length;
      // A secret may lie across two chunks.
      const both = Buffer.concat([end, bytes]);
      look(place, both);
      end = both.subarray(Math.max(0, both.length - longest));
    }
  }

  return {
    inText(place, text) {
      const bytes = Buffer.from(text);
      bytesSeen += bytes.length;
      look(place, bytes);
    },
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
          const query = sql`copy (select ${sql(group)} from ${sql(`${schema}.${relation}`)}) to stdout`;
          await inStream(place, await query.readable());
        }
      }
    },
    hits: () => [...found.values()],
    bytesSeen: () => bytesSeen,
  };
}

type Table = { readonly relation: string; readonly table: string; readonly columns: string[] };

/** Tables that hold rows; a partition goes by the name of its parent. */
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
    // What precedes a secret shifts its base64 by a third of a group; the ends depend on the neighbours and are left out.
    ...[0, 1, 2].map((shift): [Form, string] => {
      const text = Buffer.concat([Buffer.alloc(shift), secret])
        .toString('base64')
        .replaceAll('=', '');
      return ['base64', text.slice(shift === 0 ? 0 : 4, -4)];
    }),
  ];
  return forms.map(([form, text]) => ({ canary, form, bytes: Buffer.from(text) }));
}
