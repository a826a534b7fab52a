import { expect, test } from 'vitest';
import { postgresMoments } from './postgres-moments.ts';

function message(type: string, ...texts: string[]): Buffer {
  const body = Buffer.from(texts.map((text) => `${text}\0`).join(''));
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

const STARTUP = Buffer.from([0, 0, 0, 8, 0, 3, 0, 0]);
const SYNC = message('S');
const READY = message('Z');

function connection() {
  const moments = postgresMoments(['claim', 'complete']);
  moments('up', STARTUP);
  // The ready message after the startup, which answers no Sync.
  moments('down', READY);
  moments('up', message('P', 's1', 'select * from claim($1)'));
  moments('up', message('P', 's2', 'select complete($1) as id'));
  return moments;
}

test('a function call begins when its statement is bound, and ends with the answer', () => {
  const moments = connection();
  expect(moments('up', Buffer.concat([message('B', '', 's1'), SYNC]))).toEqual(['claim.before']);
  expect(moments('down', message('D', 'row'))).toEqual([]);
  expect(moments('down', READY)).toEqual(['claim.after']);
});

test('answers are matched to calls in order', () => {
  const moments = connection();
  moments('up', Buffer.concat([message('B', '', 'other'), SYNC, message('B', '', 's2'), SYNC]));
  expect(moments('down', READY)).toEqual([]);
  expect(moments('down', READY)).toEqual(['complete.after']);
});

test('a message split into pieces is recognized', () => {
  const moments = connection();
  const bytes = message('B', '', 's1');
  expect([...bytes].flatMap((_, i) => moments('up', bytes.subarray(i, i + 1)))).toEqual(['claim.before']);
});
