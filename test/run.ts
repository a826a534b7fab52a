// All checks and tests. Arguments narrow the run to the test files whose path contains one of them.
import { runShortSuite } from './fault/short-suite.ts';
import { runStaticChecks } from './support/static-checks.ts';
import { runVitest } from './support/run-vitest.ts';
import { conclude } from './support/tally.ts';

const filters = process.argv.slice(2);
const first = filters.length === 0 ? await runStaticChecks() : (await runVitest('unit', { filters })).tally;
const { tally } = await runVitest('integration', { filters });
const faults = filters.length === 0 ? [await runShortSuite()] : [];
conclude([first, tally, ...faults]);
