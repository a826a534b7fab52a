import { expect, test } from 'vitest';
import { encodedForm } from './form.ts';

const read = ({ body, contentType }: ReturnType<typeof encodedForm>) =>
  new Response(typeof body === 'string' ? body : Buffer.from(body), {
    headers: { 'content-type': contentType },
  }).formData();

test('a form without files is URL-encoded', async () => {
  const form = encodedForm([
    ['a', 'x=1&y=2 +%0d%0a'],
    ['b', 'Grüße\r\n✓'],
  ]);
  expect(form.contentType).toBe('application/x-www-form-urlencoded');
  expect([...(await read(form))]).toEqual([
    ['a', 'x=1&y=2 +%0d%0a'],
    ['b', 'Grüße\r\n✓'],
  ]);
});

test('a multipart form preserves every byte of a file', async () => {
  const bytes = Buffer.from(Array.from({ length: 512 }, (_, at) => at % 256));
  const form = await read(
    encodedForm([
      ['text', 'Grüße\r\n✓'],
      ['file', { filename: 'Übersicht.bin', contentType: 'application/octet-stream', bytes }],
    ]),
  );
  expect(form.get('text')).toBe('Grüße\r\n✓');
  const file = form.get('file') as File;
  expect([file.name, file.type]).toEqual(['Übersicht.bin', 'application/octet-stream']);
  expect(Buffer.from(await file.arrayBuffer())).toEqual(bytes);
});

test('a file name cannot inject a field or a header', async () => {
  const filename = 'a"; name="to"\r\nX-Injected: b\r\n\r\nc';
  const form = encodedForm([['file', { filename, contentType: 'text/plain', bytes: Buffer.from('x') }]]);
  const text = Buffer.from(form.body as Uint8Array).toString();
  expect(text.split('\r\n').filter((line) => line.startsWith('X-Injected'))).toEqual([]);
  expect([...(await read(form)).keys()]).toEqual(['file']);
});

test('each multipart form has its own boundary', () => {
  const file = { filename: 'a', contentType: 'text/plain', bytes: Buffer.from('x') };
  const types = [1, 2].map(() => encodedForm([['file', file]]).contentType);
  expect(new Set(types).size).toBe(2);
});
