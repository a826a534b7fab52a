// Writes what is generated from code; `--check` only says what is stale.
import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { configTable } from '#core/platform/config-table.ts';
import { readDeployments } from './configuration.ts';
import { generateRegistry } from './providers/generate.ts';

const here = new URL('./', import.meta.url);
const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

// In this order: the configuration is read from deployments that import the registry.
await put('providers/registry.gen.ts', await generateRegistry(new URL('providers/', here)));
await put('CONFIGURATION.md', configTable(await readDeployments(here)));

async function put(file: string, wanted: string): Promise<void> {
  const target = new URL(file, here);
  const found = await readFile(target, 'utf8').catch(() => '');
  if (found === wanted) return;
  if (!values.check) return writeFile(target, wanted);
  process.stderr.write(`services/${file} is stale: run \`npm run gen\`.\n`);
  process.exitCode = 1;
}
