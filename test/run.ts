// Runs all checks and tests. Arguments narrow the run to the test files whose path contains one of them; `--clients` adds the
// generated clients, `--twins` the comparison with the vendors' SDKs.
import { join } from 'node:path';
import { runClients } from './clients/run-clients.ts';
import { repeatFailedItems, runClusterItems } from './e2e/cluster-items.ts';
import { runShortSuite } from './fault/short-suite.ts';
import { projectRoot } from './support/command.ts';
import { runPart, secondsSince, timesOf, type FileTime, type Part } from './support/parts.ts';
import { runStaticChecks } from './support/static-checks.ts';
import { runVitestAgain } from './support/run-vitest-again.ts';
import { conclude } from './support/tally.ts';
import { runTwins } from './wire-twins/run-twins.ts';

// A run starts dozens of service processes from the same sources.
process.env['NODE_COMPILE_CACHE'] ??= join(projectRoot, 'node_modules/.cache/compiled');

const args = process.argv.slice(2);
const withClients = args.includes('--clients');
const withTwins = args.includes('--twins');
const filters = args.filter((arg) => arg !== '--clients' && arg !== '--twins');
const files: FileTime[] = [];
const started = performance.now();

function runTests(project: 'unit' | 'integration'): Promise<Part> {
  return runPart(`${project} tests`, async () => {
    const run = await runVitestAgain(project, { filters });
    files.push(...run.files);
    return run.tally;
  });
}

/**
 * Runs the parts one after the other, because each uses the processor fully. The cluster items run beside others: they mostly
 * wait.
 */
async function runAll(): Promise<Part[]> {
  const inCluster = runClusterItems(process.env);
  const [cluster, parts] = await Promise.all([
    runPart('end to end, in a cluster', async () => (await inCluster).tally),
    (async () => [
      await runPart('static checks and unit tests', runStaticChecks),
      await runTests('integration'),
      await runPart('fault suite and its mutants', runShortSuite),
    ])(),
  ]);
  const twins = withTwins ? [await runPart('wire twins', runTwins)] : [];
  const tally = await repeatFailedItems(await inCluster, (items) => runClusterItems(process.env, items));
  // Last and alone, because compilers use the processor fully.
  const clients = withClients ? [await runPart('generated clients', runClients)] : [];
  return [...parts, { ...cluster, tally }, ...twins, ...clients];
}

const parts = filters.length === 0 ? await runAll() : [await runTests('unit'), await runTests('integration')];
process.stdout.write(`\n${timesOf(parts, files, secondsSince(started))}\n`);
conclude(parts.map(({ tally }) => tally));
