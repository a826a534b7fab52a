import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Messages with a `kind` that names them. */
export type Talk = { readonly kind: string };

export type HelperProcess<Command extends Talk, Report extends Talk> = AsyncDisposable & {
  readonly tell: (command: Command) => void;
  /** Returns the next report of this kind. @throws when the process ends first. */
  readonly next: <Kind extends Report['kind']>(kind: Kind) => Promise<Extract<Report, { kind: Kind }>>;
};

/** Starts a script of this folder as a separate process, which neither faults nor a busy event loop of the suite can delay. */
export function startHelper<Command extends Talk, Report extends Talk>(
  script: string,
  args: readonly string[] = [],
): HelperProcess<Command, Report> {
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), [...args], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  return {
    tell: (command) => void child.send(command),
    next: (kind) =>
      new Promise((resolve, reject) => {
        const listen = (report: Report): void => {
          if (report.kind !== kind) return;
          child.off('message', listen);
          resolve(report as never);
        };
        child.on('message', listen);
        void ended.then((how) => reject(new Error(`${script} ended with ${how}`)));
      }),
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect();
      await ended;
    },
  };
}

/** Runs in the helper process: acts on commands until the parent disconnects. */
export function serveHelper<Command extends Talk, Report extends Talk>(
  act: (command: Command, report: (report: Report) => void) => void,
  onEnd: () => void = () => {},
): (report: Report) => void {
  const report = (message: Report): void => void process.send?.(message);
  process.on('message', (command: Command) => act(command, report));
  process.on('disconnect', () => {
    onEnd();
    process.exit();
  });
  // The parent handles the terminal's Ctrl-C.
  process.on('SIGINT', () => {});
  return report;
}
