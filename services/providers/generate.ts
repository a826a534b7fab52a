import { readdir } from 'node:fs/promises';
import type { AnyProvider } from './provider.ts';

type Module = { readonly default: AnyProvider | readonly AnyProvider[] };
type Entry = { readonly folder: string; readonly ids: readonly string[]; readonly isList: boolean };

/** Returns the source text of the registry for the provider folders under `root`: sorted, static, typed imports. */
export async function generateRegistry(root: URL): Promise<string> {
  const folders = await providerFolders(root);
  const entries = await Promise.all(folders.map((folder) => readFolder(root, folder)));
  const ids = entries.flatMap((entry) => entry.ids).toSorted();
  const repeated = ids.find((id, position) => ids[position + 1] === id);
  if (repeated !== undefined) throw new Error(`Two providers have the id ${repeated}`);
  return [
    '// Written by `npm run gen` from the folders beside it; run it after adding one.',
    ...entries.map(({ folder }) => `import ${importName(folder)} from './${folder}/provider.ts';`),
    "import type { AnyProvider } from './provider.ts';",
    '',
    '/** Every id of the catalog. */',
    `export type ProviderKind =\n${ids.map((id) => `  | '${id}'`).join('\n')};`,
    '',
    `const DEFINITIONS: readonly AnyProvider[] = [\n${entries.map(entryLine).join('\n')}\n];`,
    '',
    '/** The catalog by id, in the order of the ids. */',
    'export const PROVIDERS: ReadonlyMap<string, AnyProvider> = new Map(',
    '  DEFINITIONS.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map((provider) => [provider.id, provider]),',
    ');',
    '',
  ].join('\n');
}

async function providerFolders(root: URL): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name === 'provider.ts')
    .map((entry) => new URL(`file://${entry.parentPath}/`).href.slice(root.href.length).replace(/\/$/, ''))
    .filter((folder) => folder !== '')
    .toSorted();
}

async function readFolder(root: URL, folder: string): Promise<Entry> {
  const loaded = (await import(new URL(`${folder}/provider.ts`, root).href)) as Module;
  return {
    folder,
    ids: [loaded.default].flat().map((provider) => provider.id),
    isList: Array.isArray(loaded.default),
  };
}

function entryLine({ folder, isList }: Entry): string {
  return isList ? `  ...${importName(folder)},` : `  ${importName(folder)},`;
}

function importName(folder: string): string {
  return folder.replace(/[-/]+(.)/g, (_, letter: string) => letter.toUpperCase());
}
