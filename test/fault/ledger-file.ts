import { closeSync, openSync, writeSync } from 'node:fs';

export type LedgerFile = {
  readonly append: (entry: object) => void;
  readonly close: () => void;
};

/**
 * Opens a ledger. Each entry has been written to the operating system when `append` returns, so only a crash of the machine loses
 * it.
 */
export function openLedger(path: string): LedgerFile {
  const file = openSync(path, 'a', 0o600);
  return {
    append: (entry) => void writeSync(file, `${JSON.stringify(entry)}\n`),
    close: () => closeSync(file),
  };
}
