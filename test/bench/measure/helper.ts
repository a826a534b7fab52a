import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export type HelperProcess<Command, Result, Event extends string = never> = AsyncDisposable & {
  readonly pid: number;
  /** Runs one command at a time. @throws when the process fails or ends. */
  run(command: Command, onEvent?: (event: Event) => void): Promise<Result>;
};

type Message<Result, Event> =
  | { readonly event: Event }
  | { readonly result: Result }
  | { readonly error: string };

export type ProcessExtras = {
  readonly environment?: Readonly<Record<string, string>>;
  readonly nodeArguments?: readonly string[];
};

/** Starts a script of the folder `processes` as a separate process that takes commands. */
export async function startHelper<Command, Result, Event extends string = never>(
  script: string,
  { environment = {}, nodeArguments = [] }: ProcessExtras = {},
): Promise<HelperProcess<Command, Result, Event>> {
  const child = fork(fileURLToPath(new URL(`../processes/${script}`, import.meta.url)), {
    env: { ...process.env, ...environment },
    execArgv: [...process.execArgv, ...nodeArguments],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const { pid } = child;
  if (pid === undefined) throw new Error(`${script} did not start`);
  return {
    pid,
    run: (command, onEvent) => runCommand(child, script, command, onEvent),
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.disconnect();
      await ended;
    },
  };
}

function runCommand<Command, Result, Event extends string>(
  child: ChildProcess,
  script: string,
  command: Command,
  onEvent?: (event: Event) => void,
): Promise<Result> {
  return new Promise<Result>((resolve, reject) => {
    const settle = (act: () => void): void => {
      child.off('message', listen);
      child.off('exit', fail);
      act();
    };
    const fail = (): void => settle(() => reject(new Error(`${script} ended`)));
    const listen = (message: Message<Result, Event>): void => {
      if ('event' in message) onEvent?.(message.event);
      else if ('error' in message) settle(() => reject(new Error(`${script}: ${message.error}`)));
      else settle(() => resolve(message.result));
    };
    child.on('message', listen);
    child.once('exit', fail);
    child.send(command as object);
  });
}

/** Runs in the helper process: answers commands until the parent disconnects. */
export function answerCommands<Command, Result, Event extends string = never>(
  answer: (command: Command, emit: (event: Event) => void) => Promise<Result> | Result,
): void {
  const send = (message: Message<Result, Event>): void => void process.send?.(message);
  process.on('message', (command: Command) => {
    Promise.try(answer, command, (event: Event) => send({ event })).then(
      (result) => send({ result }),
      (error: unknown) => send({ error: String(error) }),
    );
  });
  process.on('disconnect', () => process.exit());
  // The parent handles the terminal's Ctrl-C.
  process.on('SIGINT', () => {});
}
