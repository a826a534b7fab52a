import { crc32, deflateRawSync } from 'node:zlib';

export type ZipFile = { readonly name: string; readonly content: string; readonly method: 0 | 8 };

/** Returns a zip archive of small files, stored (0) or deflated (8). */
export function zipOf(files: readonly ZipFile[]): Buffer {
  const locals: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, content, method } of files) {
    const body = method === 8 ? deflateRawSync(content) : Buffer.from(content);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    // The directory entry repeats the local header from its version field on, two bytes further.
    for (const [header, at] of [
      [local, 4],
      [entry, 6],
    ] as const) {
      header.writeUInt16LE(20, at);
      header.writeUInt16LE(method, at + 4);
      header.writeUInt32LE(crc32(content), at + 10);
      header.writeUInt32LE(body.length, at + 14);
      header.writeUInt32LE(Buffer.byteLength(content), at + 18);
      header.writeUInt16LE(name.length, at + 22);
    }
    entry.writeUInt32LE(offset, 42);
    locals.push(local, Buffer.from(name), body);
    directory.push(entry, Buffer.from(name));
    offset += local.length + name.length + body.length;
  }
  const listing = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(files.length, 8);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(listing.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...locals, listing, end]);
}
