// Runs `node deploy/run.mjs script.ts [arguments]` on Node 24 with the locked dependencies, and installs them first where needed.
// The script's path is relative to the project; the script runs in the caller's folder, so that its arguments may name files there.
// This file is plain JavaScript without dependencies, because it runs first in a fresh clone, on any Node from 20 on.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const NODE_MIN = [24, 12];
// A request that gets no answer is repeated after a minute; npm waits five, in the packages' own scripts too.
const NPM_CI = [
  'ci',
  '--include=dev',
  '--no-audit',
  '--no-fund',
  '--loglevel=error',
  '--fetch-timeout=60000',
];
const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGKILL: 9, SIGTERM: 15 };

const root = resolve(fileURLToPath(import.meta.url), '../..');

/** Returns whether the installed packages differ from the lock file; npm records them at the end of an installation. */
function needsInstall() {
  const recordFile = join(root, 'node_modules/.package-lock.json');
  if (!existsSync(recordFile)) return true;
  const locked = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages;
  const installed = JSON.parse(readFileSync(recordFile, 'utf8')).packages;
  return Object.entries(locked).some(([path, { version, integrity, optional }]) => {
    if (path === '') return false;
    const found = installed[path];
    // Optional packages are mostly for other platforms.
    if (found === undefined) return optional !== true;
    return found.version !== version || found.integrity !== integrity;
  });
}

async function install() {
  const started = Date.now();
  process.stderr.write('Installing dependencies (npm ci), half a minute to a minute\n');
  // NODE_ENV=production would skip the development dependencies, which every script here needs.
  const npm = spawn('npm', NPM_CI, {
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
  process.stderr.write(`Installed in ${Math.round((Date.now() - started) / 1000)} s\n`);
}

/** Returns the Node that the dependencies pin, else the running one if it is new enough. */
function chooseNode() {
  const pinned = join(root, 'node_modules/node/bin/node');
  if (existsSync(pinned)) return pinned;
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])) return process.execPath;
  throw new Error(
    `Node ${NODE_MIN.join('.')} or newer is needed and node_modules/node is missing: install Node 24`,
  );
}

/** Returns the exit code as a shell reports it: 128 plus the signal's number after a signal. */
function ended(child) {
  return new Promise((resolveCode, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolveCode(code ?? 128 + (SIGNAL_NUMBERS[signal] ?? 0)));
  });
}

async function main() {
  const [script, ...args] = process.argv.slice(2);
  if (script === undefined) throw new Error('usage: node deploy/run.mjs script [arguments]');
  if (needsInstall()) await install();
  const child = spawn(chooseNode(), [resolve(root, script), ...args], {
    stdio: 'inherit',
    // Downloads trust the certificates that the system trusts, such as that of a company's proxy.
    env: { NODE_USE_SYSTEM_CA: '1', ...process.env },
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      // A terminal sends Ctrl-C to the whole process group, so the script has received it already.
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  }
  process.exitCode = await ended(child);
}

main().catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
});
