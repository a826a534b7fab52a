import { styleText } from 'node:util';

export type Progress = {
  /** Runs a step and prints one line about it when it is done. */
  readonly step: <T>(work: () => Promise<T>, done: (result: T) => string) => Promise<T>;
  /** Prints one line immediately. */
  readonly note: (line: string) => void;
};

/** Prints lines prefixed with the seconds since the start. */
export function createProgress(
  output: NodeJS.WritableStream,
  now: () => number = () => performance.now(),
): Progress {
  const started = now();
  const note = (line: string): void => {
    const seconds = ((now() - started) / 1_000).toFixed(1).padStart(6);
    output.write(`${styleText('dim', `${seconds} s`, { stream: output })}  ${line}\n`);
  };
  return {
    note,
    async step(work, done) {
      const result = await work();
      note(done(result));
      return result;
    },
  };
}
