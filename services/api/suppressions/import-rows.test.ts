import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { normalRecipient } from '#core/domain/recipient/normal-recipient.ts';
import { SUPPRESSION_REASONS, SUPPRESSION_SCOPES } from '#core/domain/recipient/suppression.ts';
import { toCsv } from '../http/lists/csv.ts';
import { CSV, importRows, NDJSON, type ImportRow } from './import-rows.ts';

const NOW = Date.parse('2026-01-15T09:30:00Z');
function rowsOf(type: string, text: string | Buffer): { rows: ImportRow[]; unknown: string[] } {
  const unknown: string[] = [];
  const options = { now: NOW, onUnknown: (name: string) => unknown.push(name) };
  return { rows: [...importRows({ type, bytes: Buffer.from(text) }, options)], unknown };
}
const faults = (type: string, text: string | Buffer) =>
  rowsOf(type, text).rows.map((row) =>
    'faults' in row ? row.faults.map(({ field, rule }) => `${row.line} ${field} ${rule}`) : [],
  );

const recipient = fc
  .record({
    channel: fc.constantFrom(...CHANNELS),
    address: fc.oneof(
      fc.constantFrom(
        '+15550000001',
        'ann@example.com',
        '=x@example.com',
        "'+x@example.com",
        '+tag@example.com',
      ),
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }),
    ),
  })
  .filter(({ channel, address }) => normalRecipient(channel, address) === address && !address.includes('\0'))
  .filter(({ address }) => address.isWellFormed());
const entry = fc.tuple(
  recipient,
  fc.record({
    reason: fc.constantFrom(...SUPPRESSION_REASONS),
    scope: fc.constantFrom(...SUPPRESSION_SCOPES),
    expiresAt: fc.constantFrom(null, '2027-01-01T00:00:00.000Z'),
    hashed: fc.boolean(),
  }),
);

test('entries written as NDJSON or CSV are read back, with both spellings of field names', () => {
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 8 }), fc.boolean(), (given, isSnake) => {
      const name = isSnake ? 'expires_at' : 'expiresAt';
      const rows = given.map(([to, { expiresAt, ...rest }]) => ({ ...to, ...rest, [name]: expiresAt }));
      const columns = ['channel', 'address', 'reason', 'scope', 'hashed', name] as const;
      const texts = {
        [NDJSON]: rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
        [CSV]: toCsv([columns, ...rows.map((row) => columns.map((one) => row[one as keyof typeof row]))]),
      };
      const expected = given.map(([to, rest]) => ({ ...to, ...rest, normal: to.address }));
      for (const [type, text] of Object.entries(texts)) {
        const { rows: read, unknown } = rowsOf(type, text);
        expect(read.map((row) => ('entry' in row ? row.entry : row))).toEqual(expected);
        expect(unknown).toEqual([]);
      }
    }),
  );
});

test('extra fields of an export are ignored, and unknown fields are reported', () => {
  const own = '"channel":"push","address":"t"';
  expect(rowsOf(NDJSON, `{${own},"id":1,"source":"api","created_at":"x","messageId":null}`).unknown).toEqual(
    [],
  );
  expect(rowsOf(NDJSON, `{${own},"expires":1,"__proto__":2}`)).toMatchObject({
    unknown: ['expires', '__proto__'],
    rows: [{ entry: { address: 't', reason: 'manual', expiresAt: null, hashed: false } }],
  });
  expect(rowsOf(CSV, 'id,channel,address,createdAt,note\n1,push,t,x,y\n')).toMatchObject({
    unknown: ['note'],
    rows: [{ line: 2, entry: { address: 't' } }],
  });
});

test('marks the rows whose expiry has passed', () => {
  const text = ['2026-01-15T09:30:00Z', '2026-01-15T09:30:01Z']
    .map((expiresAt) => JSON.stringify({ channel: 'push', address: 'a', expiresAt }))
    .join('\n');
  expect(rowsOf(NDJSON, text).rows).toMatchObject([{ isOver: true }, { isOver: false }]);
});

test('reads a CSV saved by a spreadsheet program (BOM, CRLF, apostrophes)', () => {
  const text = '\u{feff}Address is wrong';
  expect(() => rowsOf(CSV, text)).toThrow('validation');
  const sheet =
    '\u{feff}address,channel,hashed,reason\r\n\'+15550000001,sms,TRUE,\r\n"ann@example.com",email,,opt_out\r\n';
  expect(rowsOf(CSV, sheet).rows).toMatchObject([
    { line: 2, entry: { normal: '+15550000001', hashed: true, reason: 'manual' } },
    { line: 3, entry: { normal: 'ann@example.com', hashed: false, reason: 'opt_out' } },
  ]);
});

describe('invalid rows', () => {
  test.each([
    ['no JSON', '1 row format'],
    ['[1]', '1 row type'],
    ['null', '1 row type'],
    [`{"channel":"push","address":"${'x'.repeat(40_000)}"}`, '1 row format'],
    [`{"channel":"push","address":"${'x'.repeat(4_097)}"}`, '1 address max'],
    ['['.repeat(30_000), '1 row format'],
    ['{"channel":"push","address":"a\\u0000"}', '1 address characters'],
    ['{"channel":"push","address":"\\ud800"}', '1 address characters'],
    ['{"channel":"push"}', '1 address required'],
    ['{"channel":"push","address":null,"hashed":true}', '1 address required'],
    ['{"address":"a"}', '1 channel required'],
    ['{"channel":"push","address":"a","address":"b"}', '1 address single'],
    ['{"channel":"push","address":"a","note":{"to":1,"to":2}}', '1 note.to single'],
    ['{"channel":"sms","address":"ann@example.com"}', '1 address address'],
    ['{"channel":"push","address":7}', '1 address type'],
    ['{"channel":"push","address":"a","reason":"bored"}', '1 reason enum'],
    [
      '{"channel":"push","address":"a","expires_at":"2030-01-01T00:00:00Z","expiresAt":"2031-01-01T00:00:00Z"}',
      '1 expiresAt conflict',
    ],
    ['{"channel":"push","address":"a","hashed":"yes"}', '1 hashed type'],
  ])('%.60s is reported', (text, fault) => {
    expect(faults(NDJSON, text)).toEqual([[fault]]);
  });

  test('are reported by line, and the other rows are read', () => {
    expect(
      faults(NDJSON, '{"channel":"push","address":"a"}\n\n\nx\n{"channel":"push","address":"b"}\ny'),
    ).toEqual([[], ['4 row format'], [], ['6 row format']]);
    const sheet = 'channel,address\npush,"a\nb"\npush\nsms,x\npush,c,\npush,d';
    expect(faults(CSV, sheet)).toEqual([[], ['4 row format'], ['5 address address'], ['6 row format'], []]);
  });

  test.each([
    ['', 0],
    ['channel,address', 0],
    ['channel,address\n', 0],
  ])('%j has no row', (text, n) => {
    expect(rowsOf(CSV, text).rows).toHaveLength(n);
  });

  test.each([
    'channel;address\npush;a',
    'address\na',
    'channel,address,channel\npush,a,sms',
    'channel,address,expiresAt,expires_at\npush,a,,',
    `channel,address${',x'.repeat(200)}\n`,
    'channel,address\npush,"a\npush,b\n',
    Buffer.from([0xff, 0xfe, 0x63, 0x00]),
    'channel,address\rpush,a\r',
  ])('%j is refused as a whole', (text) => {
    expect(() => rowsOf(CSV, text)).toThrow(/validation/);
  });
});
