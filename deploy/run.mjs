// Runs `node deploy/run.mjs script.ts [arguments]` on Node 24 with the locked dependencies, installing
// them first where needed. Plain JavaScript without dependencies: it is what a fresh clone, with any
// Node from 20 on, runs first.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const STAMP = 'node_modules/.despatch-lock-hash';
const NODE_MIN = [24, 12];

/** Whether `root` has no dependencies, or those of another lock file. */
export function needsInstall(root) {
  const stamp = join(root, STAMP);
  return !existsSync(stamp) || readFileSync(stamp, 'utf8') !== lockHash(root);
}

/** Notes that the installed dependencies are those of the lock file. */
export function markInstalled(root) {
  writeFileSync(join(root, STAMP), lockHash(root));
}

/** The Node to run scripts with: the pinned dependency, else this one if it is new enough. */
export function chooseNode(root, { execPath = process.execPath, version = process.versions.node } = {}) {
  const pinned = join(root, 'node_modules/node/bin/node');
  if (existsSync(pinned)) return pinned;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [majorMin, minorMin] = NODE_MIN;
  if (major > majorMin || (major === majorMin && minor >= minorMin)) return execPath;
  throw new Error(
    `Node ${NODE_MIN.join('.')} or newer is needed, and node_modules/node has none: install Node 24`,
  );
}

function lockHash(root) {
  return createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
}

async function install(root) {
  const started = Date.now();
  process.stderr.write('Installing dependencies (npm ci), about a minute\n');
  // NODE_ENV=production would leave out the tools that every script here needs.
  const npm = spawn('npm', ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = [];
  npm.stdout.on('data', (chunk) => output.push(chunk));
  npm.stderr.on('data', (chunk) => output.push(chunk));
  const code = await ended(npm);
  if (code !== 0) {
    process.stderr.write(Buffer.concat(output));
    throw new Error(`npm ci failed with exit code ${code}`);
  }
  markInstalled(root);
  process.stderr.write(`Installed in ${Math.round((Date.now() - started) / 1000)} s\n`);
}

/** Exit code as a shell reports it: 128 and the signal's number for a signal. */
function ended(child) {
  return new Promise((resolveCode, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => resolveCode(code ?? 128 + (SIGNAL_NUMBERS[signal] ?? 0)));
  });
}

const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGKILL: 9, SIGTERM: 15 };

async function main() {
  const root = resolve(fileURLToPath(import.meta.url), '../..');
  const [script, ...args] = process.argv.slice(2);
  if (script === undefined) throw new Error('usage: node deploy/run.mjs script [arguments]');
  if (needsInstall(root)) await install(root);
  const child = spawn(chooseNode(root), [script, ...args], { cwd: root, stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    // A terminal sends Ctrl-C to the whole group, so the script has it already.
    process.on(signal, () => {
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  }
  process.exitCode = await ended(child);
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  main().catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
}
