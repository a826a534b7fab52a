// Writes what is generated from code; `--check` only says what is stale. `--release` also makes the OpenAPI document the
// one that later ones are held against.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { configTable } from '#core/platform/config/config-table.ts';
import { generateChart } from '../deploy/chart/generate-chart.ts';
import { readDeployments } from './configuration.ts';
import { generateOpenapi } from './api/openapi/generate-openapi.ts';
import { generateMoves } from './core/store/schema/generate-moves.ts';
import { generateCrds } from './controller/generate-crds.ts';
import { generateRegistry } from './providers/generate.ts';

const here = new URL('./', import.meta.url);
const NOTHING_ACCEPTED = `# Changes since the last release that break clients made from its document, accepted all the same. One line each, as the
# check prints it, below a comment that says why. \`npm run gen -- --release\` empties this file.
`;
const { values } = parseArgs({
  options: { check: { type: 'boolean', default: false }, release: { type: 'boolean', default: false } },
});

// In this order: the configuration is read from deployments that import the registry.
await put('services/providers/registry.gen.ts', await generateRegistry(new URL('providers/', here)));
await put('services/CONFIGURATION.md', configTable(await readDeployments(here)));
for (const { path, text } of [...generateMoves(), ...generateCrds()]) await put(path, text);
const openapi = await generateOpenapi();
await put('services/api/openapi.json', openapi);
if (values.release) await releaseOpenapi(openapi);
const chart = await generateChart(new URL('../charts/despatch/', here));
await put('charts/despatch/values.schema.json', chart.schema);
await put('charts/despatch/README.md', chart.readme);

/** From now on clients made from this document are kept from breaking, and nothing is accepted any more that would. */
async function releaseOpenapi(document: string): Promise<void> {
  await put('test/api-baseline/accepted.txt', NOTHING_ACCEPTED);
  await put('test/api-baseline/openapi.json', document);
}

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
