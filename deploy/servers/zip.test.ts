import { deflateRawSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { readZipMember } from './zip.ts';

function zipOf(files: readonly { name: string; content: string; method: 0 | 8 }[]): Buffer {
  const locals: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, content, method } of files) {
    const body = method === 8 ? deflateRawSync(content) : Buffer.from(content);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(name.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(method, 10);
    entry.writeUInt32LE(body.length, 20);
    entry.writeUInt32LE(content.length, 24);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(offset, 42);
    locals.push(local, Buffer.from(name), body);
    directory.push(entry, Buffer.from(name));
    offset += local.length + name.length + body.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...locals, ...directory, end]);
}

const archive = zipOf([
  { name: 'LICENSE.txt', content: 'terms', method: 0 },
  { name: 'vault', content: 'program '.repeat(100), method: 8 },
]);

test('a member is found by its name, compressed or stored', () => {
  expect(readZipMember(archive, 'vault').toString()).toBe('program '.repeat(100));
  expect(readZipMember(archive, 'LICENSE.txt').toString()).toBe('terms');
});

test('an absent member and a file that is no archive are errors', () => {
  expect(() => readZipMember(archive, 'nomad')).toThrow('the zip archive has no nomad');
  expect(() => readZipMember(Buffer.from('<html>not found</html>'), 'vault')).toThrow('not a zip archive');
});
