import { execFile } from 'node:child_process';

export type RunOptions = {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  uid?: number;
  gid?: number;
  timeoutMs?: number;
};

/** Runs a program to its end and returns its trimmed standard output; throws with its output when it fails. */
export function runProgram(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  const { timeoutMs = 60_000, ...rest } = options;
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      { ...rest, timeout: timeoutMs, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout.trim());
        else
          reject(
            new Error(`${command} failed: ${stderr.trim() || stdout.trim() || error.message}`, {
              cause: error,
            }),
          );
      },
    );
  });
}
