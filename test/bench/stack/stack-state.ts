import { createHash, randomBytes } from 'node:crypto';
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../../support/command.ts';
import { openKeptFile, requireSame, type KeptFile } from './kept-file.ts';
import type { TenantRecord } from './seed.ts';

/** What the servers of a kept folder need to know in the next run. */
export type StackState = {
  /** Hash of the SQL that created the databases. */
  readonly schema: string;
  readonly tenants: number;
  readonly keyring: 'vault' | 'local';
  readonly pepper: string;
  readonly passwords: { readonly api: string; readonly worker: string; readonly observer: string };
  /** Every tenant that some database contains. */
  readonly made: TenantRecord[];
  /** Whether the template database is complete. */
  hasTemplate: boolean;
};

/** @throws TypeError where the folder's databases have another schema or were made with other options. */
export async function openStackState(
  folder: string | undefined,
  options: Pick<StackState, 'tenants' | 'keyring'>,
): Promise<KeptFile<StackState>> {
  const terms = { schema: await schemaHash(), tenants: options.tenants, keyring: options.keyring };
  const word = (): string => randomBytes(18).toString('hex');
  const file = folder === undefined ? undefined : join(folder, 'stack.json');
  const kept = await openKeptFile<StackState>(file, () => ({
    ...terms,
    pepper: word(),
    passwords: { api: word(), worker: word(), observer: word() },
    made: [],
    hasTemplate: false,
  }));
  requireSame(`What ${file} describes`, kept.state, terms);
  await kept.save();
  return kept;
}

async function schemaHash(): Promise<string> {
  const hash = createHash('sha256');
  const files = await Array.fromAsync(glob('services/core/store/**/*.sql', { cwd: projectRoot }));
  for (const file of files.toSorted()) hash.update(await readFile(join(projectRoot, file)));
  return hash.digest('hex').slice(0, 16);
}
