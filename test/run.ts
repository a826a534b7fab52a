// All checks and tests. Arguments narrow the run to the test files whose path contains one of them.
import { runClusterItems } from './e2e/cluster-items.ts';
import { runShortSuite } from './fault/short-suite.ts';
import { runStaticChecks } from './support/static-checks.ts';
import { runVitest } from './support/run-vitest.ts';
import { conclude } from './support/tally.ts';

const filters = process.argv.slice(2);
const first = filters.length === 0 ? await runStaticChecks() : (await runVitest('unit', { filters })).tally;
const { tally } = await runVitest('integration', { filters });
const faults = filters.length === 0 ? [await runShortSuite()] : [];
// Last, as nothing else on this machine should run beside a cluster.
const cluster = filters.length === 0 ? [await runClusterItems(process.env)] : [];
conclude([first, tally, ...faults, ...cluster]);
