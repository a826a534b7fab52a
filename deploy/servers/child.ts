import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

export type ChildOptions = {
  command: string;
  args: readonly string[];
  /** The program's standard output and error are appended to this file. */
  logFile: string;
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  uid?: number;
  gid?: number;
  /** Sent to the program when this process dies without stopping it. Default SIGTERM. */
  orphanSignal?: NodeJS.Signals;
  /** Deleted after that, once the program has ended. */
  orphanFolder?: string;
};

export type Child = {
  readonly pid: number;
  /** Resolves when the program has ended, to a short text such as `exit code 1`. */
  readonly exited: Promise<string>;
  /** Returns why it ended, or undefined while it runs. */
  endedWith(): string | undefined;
  /** Sends the signal, waits for the end, and kills after `timeoutMs` (default 20 s). */
  stop(signal: NodeJS.Signals, timeoutMs?: number): Promise<void>;
};

/**
 * Starts a server program in its own process group, so that Ctrl-C reaches only this process, which stops its children in
 * order. A watchdog process stops the program if this process is killed.
 */
export async function startChild(options: ChildOptions): Promise<Child> {
  const log = openSync(options.logFile, 'a', 0o600);
  const { uid, gid } = options;
  const child = spawn(options.command, options.args, {
    cwd: options.cwd,
    env: options.env ?? process.env,
    stdio: ['ignore', log, log],
    detached: true,
    ...(uid === undefined ? {} : { uid }),
    ...(gid === undefined ? {} : { gid }),
  });
  closeSync(log);
  let ended: string | undefined;
  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => {
      ended = signal === null ? `exit code ${code}` : `signal ${signal}`;
      resolve(ended);
    });
  });
  await once(child, 'spawn');
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${options.command} did not start`);
  const cut = leash(pid, options.orphanSignal ?? 'SIGTERM', options.orphanFolder);
  void exited.then(cut);

  return {
    pid,
    exited,
    endedWith: () => ended,
    async stop(signal, timeoutMs = 20_000) {
      if (ended !== undefined) return;
      child.kill(signal);
      const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
      await exited;
      clearTimeout(timer);
    },
  };
}

/** Polls until the program is ready; throws with the end of its log when it ends or takes too long. */
export async function untilReady(
  child: Child,
  options: { name: string; logFile: string; isReady: () => Promise<boolean>; timeoutMs?: number },
): Promise<void> {
  const deadline = Date.now() + (options.timeoutMs ?? 60_000);
  while (!(await options.isReady())) {
    const ended = child.endedWith();
    if (ended === undefined && Date.now() < deadline) {
      await delay(20);
      continue;
    }
    await child.stop('SIGKILL');
    const reason = ended === undefined ? 'was not ready in time' : `ended with ${ended}`;
    throw new Error(`${options.name} ${reason}:\n${await logTail(options.logFile)}`);
  }
}

async function logTail(path: string): Promise<string> {
  const text = await readFile(path, 'utf8');
  return text.trimEnd().split('\n').slice(-15).join('\n');
}

/**
 * Starts a watchdog shell that reads from a pipe held only by this process: however this process dies, the pipe closes, and
 * the shell signals the program and deletes the folder. Returns the function that ends the watchdog.
 */
function leash(pid: number, signal: NodeJS.Signals, folder = ''): () => void {
  const script = `read -r _ && exit; kill -s "$1" "$2"; [ -n "$3" ] || exit
    # One whose parent reaps nobody seems to run for ever.
    for i in $(seq 300); do kill -0 "$2" || break; sleep 0.1; done; rm -rf -- "$3"`;
  const args = ['-c', script, 'leash', signal.replace('SIG', ''), String(pid), folder];
  const holder = spawn('/bin/sh', args, { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
  // Neither the shell nor its pipe may keep the event loop alive.
  holder.unref();
  holder.stdin.on('error', () => holder.kill('SIGKILL'));
  if ('unref' in holder.stdin && typeof holder.stdin.unref === 'function') holder.stdin.unref();
  return () => holder.kill('SIGKILL');
}
