import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Messages that carry one name each, as an object. */
export type Talk = { readonly kind: string };

export type HelperProcess<Command extends Talk, Report extends Talk> = AsyncDisposable & {
  readonly tell: (command: Command) => void;
  /** The next report of this kind. @throws when the process ends first. */
  readonly next: <Kind extends Report['kind']>(kind: Kind) => Promise<Extract<Report, { kind: Kind }>>;
};

/** Starts a script of this folder as a process of its own, so that no fault and no busy loop of ours reaches it. */
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

/** The other end: acts on commands until the parent goes. */
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
  // The terminal's Ctrl-C is the parent's to act on.
  process.on('SIGINT', () => {});
  return report;
}
