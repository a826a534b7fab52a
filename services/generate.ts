// Writes what is generated from code; `--check` only says what is stale.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { configTable } from '#core/platform/config-table.ts';
import { generateChart } from '../deploy/chart/generate-chart.ts';
import { readDeployments } from './configuration.ts';
import { generateOpenapi } from './api/generate-openapi.ts';
import { generateCrds } from './controller/generate-crds.ts';
import { generateRegistry } from './providers/generate.ts';

const here = new URL('./', import.meta.url);
const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

// In this order: the configuration is read from deployments that import the registry.
await put('services/providers/registry.gen.ts', await generateRegistry(new URL('providers/', here)));
await put('services/CONFIGURATION.md', configTable(await readDeployments(here)));
for (const { path, text } of generateCrds()) await put(path, text);
await put('services/api/openapi.json', await generateOpenapi());
const chart = await generateChart(new URL('../charts/despatch/', here));
await put('charts/despatch/values.schema.json', chart.schema);
await put('charts/despatch/README.md', chart.readme);

/** Brings a file, named from the project's root, up to date. */
async function put(file: string, wanted: string): Promise<void> {
  const target = new URL(`../${file}`, here);
  const found = await readFile(target, 'utf8').catch(() => '');
  if (found === wanted) return;
  if (!values.check) {
    await mkdir(new URL('./', target), { recursive: true });
    return writeFile(target, wanted);
  }
  process.stderr.write(`${file} is stale: run \`npm run gen\`.\n`);
  process.exitCode = 1;
}
