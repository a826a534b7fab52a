import { closeSync, openSync, writeSync } from 'node:fs';

export type LedgerFile = {
  readonly append: (entry: object) => void;
  readonly close: () => void;
};

/** Every entry is with the operating system before `append` returns: only the machine's own end could lose it. */
export function openLedger(path: string): LedgerFile {
  const file = openSync(path, 'a', 0o600);
  return {
    append: (entry) => void writeSync(file, `${JSON.stringify(entry)}\n`),
    close: () => closeSync(file),
  };
}
