import { createHash } from 'node:crypto';
import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EnvHttpProxyAgent, fetch } from 'undici';
import type { Obtained } from './program-build.ts';
import type { Archive, Platform, Program } from './programs.ts';
import { runProgram } from './run-program.ts';
import { readZipMember } from './zip.ts';

type DownloadOptions = { log: (line: string) => void; folder: string; platform?: Platform };

/**
 * Networks that block vendors often drop packets silently: give up early, because there are other ways to get the program.
 */
const CONNECT_TIMEOUT_MS = 2_000;
/** Longest silence before the answer and between two chunks of it. */
const SILENCE_TIMEOUT_MS = 10_000;
const DOWNLOAD_TIMEOUT_MS = 15 * 60_000;
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/** Downloads the vendor's archive, verifies it against the pinned SHA-256 and unpacks the program. */
export async function downloadProgram(program: Program, options: DownloadOptions): Promise<Obtained> {
  const { log, folder, platform = `${process.platform}-${process.arch}` } = options;
  const { archive } = program;
  const sha256 = archive?.sha256[platform];
  if (archive === undefined || sha256 === undefined) {
    return { kind: 'unavailable', reason: `no archive is pinned for ${platform}` };
  }
  const [system = '', architecture = ''] = platform.split('-');
  const target = `${system}-${ARCHITECTURES[architecture] ?? architecture}`;
  const url = `${archive.baseUrl}/${archive.path(target)}`;
  log(`${program.name} ${archive.version}: downloading ${url}`);
  const scratch = await mkdtemp(join(folder, `${program.name}-download-`));
  try {
    const bytes = await download(url);
    const actual = createHash('sha256').update(bytes).digest('hex');
    if (actual !== sha256) throw new Error(`${url} has SHA-256 ${actual} instead of the pinned ${sha256}`);
    const unpacked = await unpack(archive, bytes, archive.member(target), scratch);
    await chmod(unpacked, 0o755);
    const path = join(folder, `${program.name}-${archive.version}`);
    await rename(unpacked, path);
    return { kind: 'done', path };
  } catch (error) {
    const reason = `downloading it failed: ${reasonOf(error)}`;
    log(`${program.name} ${archive.version}: ${reason}`);
    return { kind: 'unavailable', reason };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function download(url: string): Promise<Buffer> {
  const agent = new EnvHttpProxyAgent({
    connect: { timeout: CONNECT_TIMEOUT_MS },
    headersTimeout: SILENCE_TIMEOUT_MS,
    bodyTimeout: SILENCE_TIMEOUT_MS,
  });
  try {
    const response = await fetch(url, {
      dispatcher: agent,
      signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS),
    });
    if (!response.ok) throw new Error(`${url} answered ${response.status}`);
    return Buffer.from(await response.arrayBuffer());
  } finally {
    await agent.destroy();
  }
}

/** `fetch` only reports that it failed; the reason is in the cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}

async function unpack(archive: Archive, bytes: Buffer, member: string, scratch: string): Promise<string> {
  const path = join(scratch, 'program');
  if (archive.kind === 'zip') {
    await writeFile(path, readZipMember(bytes, member));
    return path;
  }
  const file = join(scratch, 'archive.tar.gz');
  await writeFile(file, bytes);
  await runProgram('tar', ['-xzf', file, '-C', scratch, member]);
  return join(scratch, member);
}
