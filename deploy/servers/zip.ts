import { inflateRawSync } from 'node:zlib';

const END_SIGNATURE = 0x06054b50;
const END_BYTES = 22;
const ENTRY_SIGNATURE = 0x02014b50;
const STORED = 0;
const DEFLATED = 8;

/** Returns one file of a zip archive (no zip64, no encryption); throws when the archive does not contain it. */
export function readZipMember(zip: Buffer, name: string): Buffer {
  const end = endOfDirectory(zip);
  const count = zip.readUInt16LE(end + 10);
  let at = zip.readUInt32LE(end + 16);
  for (let index = 0; index < count; index++) {
    if (zip.readUInt32LE(at) !== ENTRY_SIGNATURE) throw new Error('the zip archive has a broken directory');
    const nameBytes = zip.readUInt16LE(at + 28);
    if (zip.toString('utf8', at + 46, at + 46 + nameBytes) === name) return readEntry(zip, at);
    at += 46 + nameBytes + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  throw new Error(`the zip archive has no ${name}`);
}

function endOfDirectory(zip: Buffer): number {
  // A comment of up to 64 KiB may follow the record.
  for (let at = zip.length - END_BYTES; at >= Math.max(0, zip.length - END_BYTES - 0xffff); at--) {
    if (zip.readUInt32LE(at) === END_SIGNATURE) return at;
  }
  throw new Error('not a zip archive');
}

function readEntry(zip: Buffer, directoryEntry: number): Buffer {
  const method = zip.readUInt16LE(directoryEntry + 10);
  const bytes = zip.readUInt32LE(directoryEntry + 20);
  const local = zip.readUInt32LE(directoryEntry + 42);
  const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
  const content = zip.subarray(start, start + bytes);
  if (method === STORED) return content;
  if (method === DEFLATED) return inflateRawSync(content);
  throw new Error(`the zip archive uses compression method ${method}`);
}
