import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

export type CommandResult = { readonly code: number; readonly output: string };

/** Returns the path of a development tool's program. */
export function tool(name: string): string {
  return join(projectRoot, 'node_modules', '.bin', name);
}

/**
 * Runs a program in the project's root, or another folder, and shows its output or collects it. An aborted signal kills the
 * program; its exit code is then 1.
 */
export function runCommand(
  command: readonly string[],
  output: 'show' | 'gather',
  root: string = projectRoot,
  signal?: AbortSignal,
): Promise<CommandResult> {
  const [program = '', ...args] = command;
  const child = spawn(program, args, {
    cwd: root,
    stdio: output === 'show' ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    // The tools are scripts for `node`; this path makes them use the Node of this process instead of an older one.
    env: { ...process.env, PATH: `${join(process.execPath, '..')}:${process.env['PATH'] ?? ''}` },
  });
  const chunks: Buffer[] = [];
  const end = (): void => void child.kill('SIGKILL');
  signal?.addEventListener('abort', end);
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => chunks.push(chunk));
  // A SIGTERM for this process is meant for the whole run, so the program ends too.
  const abort = (): void => {
    child.kill('SIGTERM');
    process.exit(143);
  };
  process.once('SIGTERM', abort);
  return new Promise<CommandResult>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code: code ?? 1, output: Buffer.concat(chunks).toString() }));
  }).finally(() => process.off('SIGTERM', abort));
}
