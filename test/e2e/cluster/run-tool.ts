import { spawn } from 'node:child_process';
import { once } from 'node:events';

export type ToolOptions = {
  /** Written to its standard input. */
  readonly input?: string;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Default: five minutes. */
  readonly timeoutMs?: number;
};

export type ToolResult = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** Runs a program to its end and returns its exit code and output, whether or not it succeeds. */
export async function tryTool(
  command: string,
  args: readonly string[],
  { input = '', timeoutMs = 300_000, cwd, env }: ToolOptions = {},
): Promise<ToolResult> {
  const child = spawn(command, args, {
    timeout: timeoutMs,
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(cwd === undefined ? {} : { cwd }),
    ...(env === undefined ? {} : { env }),
  });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => void stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => void stderr.push(chunk));
  // A program that does not read its input may end before the input is written.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  return {
    code: code ?? 128,
    stdout: Buffer.concat(stdout).toString(),
    stderr: Buffer.concat(stderr).toString(),
  };
}

/** @returns its standard output, trimmed. @throws with its error output when it fails. */
export async function runTool(
  command: string,
  args: readonly string[],
  options: ToolOptions = {},
): Promise<string> {
  const { code, stdout, stderr } = await tryTool(command, args, options);
  if (code === 0) return stdout.trim();
  const said = [stderr.trim(), stdout.trim()].filter((text) => text !== '').join('\n');
  throw new Error(`${command} ${args.join(' ')} ended with ${code}:\n${said.slice(-4_000)}`);
}
