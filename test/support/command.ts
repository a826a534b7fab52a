import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

export type CommandResult = { readonly code: number; readonly output: string };

/** Path of a development tool's program. */
export function tool(name: string): string {
  return join(projectRoot, 'node_modules', '.bin', name);
}

/**
 * Runs a program at the project's root, or another one; shows its output as it comes, or gathers it. The program is ended
 * where the signal comes, and its code is 1 then.
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
    // The tools are scripts for `node`: let them find the Node that runs us, not an older one.
    env: { ...process.env, PATH: `${join(process.execPath, '..')}:${process.env['PATH'] ?? ''}` },
  });
  const chunks: Buffer[] = [];
  const end = (): void => void child.kill('SIGKILL');
  signal?.addEventListener('abort', end);
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => chunks.push(chunk));
  // Whoever ends us means the whole run, not only the part that we are.
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
