import { open, readFile } from 'node:fs/promises';
import { cpus, release, totalmem, type as systemType } from 'node:os';
import { join } from 'node:path';
import { findProgram } from '../../../deploy/servers/program.ts';
import { runProgram } from '../../../deploy/servers/run-program.ts';
import { projectRoot } from '../../support/command.ts';
import type { BenchStack } from '../stack/stack.ts';
import { percentile } from './percentile.ts';

export type Machine = {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly system: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly postgres: Readonly<Record<string, string>>;
  /** Time to write 8 kB and sync it to the disk. */
  readonly syncP50Ms: number;
  readonly syncP99Ms: number;
};

export async function describeMachine(stack: BenchStack): Promise<Machine> {
  const times = await syncTimes(join(stack.folder, 'sync'));
  const { server_version: postgresVersion = '', ...postgres } = stack.settings;
  const [nats, vault] = await Promise.all([
    versionOf('nats-server', '--version'),
    stack.pids.vault === undefined ? 'none' : versionOf('vault', 'version'),
  ]);
  const { devDependencies, dependencies } = JSON.parse(
    await readFile(join(projectRoot, 'package.json'), 'utf8'),
  ) as Record<'dependencies' | 'devDependencies', Record<string, string>>;
  const packages = { ...dependencies, ...devDependencies };
  const named = ['fastify', 'zod', 'undici', 'postgres', 'graphile-worker', 'pg-boss'];
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryBytes: totalmem(),
    system: `${systemType()} ${release()}`,
    versions: {
      node: process.version.slice(1),
      postgres: postgresVersion,
      'nats-server': nats,
      vault,
      ...Object.fromEntries(named.map((name) => [name, packages[name] ?? 'none'])),
    },
    postgres,
    syncP50Ms: percentile(times, 0.5),
    syncP99Ms: percentile(times, 0.99),
  };
}

async function versionOf(name: 'nats-server' | 'vault', argument: string): Promise<string> {
  const text = await runProgram(await findProgram(name), [argument]);
  return /\d+\.\d+\.\d+/.exec(text)?.[0] ?? text;
}

const SYNCS = 300;

/** Returns milliseconds, ascending. */
async function syncTimes(path: string): Promise<number[]> {
  await using file = await open(path, 'w');
  const page = Buffer.alloc(8_192, 1);
  const times: number[] = [];
  for (let i = 0; i < SYNCS; i++) {
    const begin = performance.now();
    await file.write(page, 0, page.length, 0);
    await file.datasync();
    times.push(performance.now() - begin);
  }
  return times.toSorted((a, b) => a - b);
}
