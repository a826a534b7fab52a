import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

export type KeptFile<State> = {
  /** The state as read from the file, or a new one; changed in place. */
  readonly state: State;
  /** Writes the state atomically: a later run finds either the old text or the new. */
  save(): Promise<void>;
};

/** Opens a state that is kept in a file, or in memory alone where no file is given. */
export async function openKeptFile<State>(
  file: string | undefined,
  begin: () => State,
): Promise<KeptFile<State>> {
  if (file === undefined) return { state: begin(), save: () => Promise.resolve() };
  const text = await readFile(file, 'utf8').catch(() => null);
  const state = text === null ? begin() : (JSON.parse(text) as State);
  return {
    state,
    async save() {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      await writeFile(`${file}.new`, JSON.stringify(state), { mode: 0o600 });
      await rename(`${file}.new`, file);
    },
  };
}

/** @throws TypeError where the folder holds a run with other options, whose figures would be mixed with those of this run. */
export function requireSame(what: string, kept: object, wanted: object): void {
  const differing = Object.entries(wanted).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify((kept as Record<string, unknown>)[name]),
  );
  if (differing.length === 0) return;
  const words = differing.map(
    ([name]) => `${name} ${JSON.stringify((kept as Record<string, unknown>)[name] ?? null)}`,
  );
  throw new TypeError(
    `${what} was begun with ${words.join(', ')}: go on with the same, or in another folder`,
  );
}
