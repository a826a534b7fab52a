// Checks that need no server: static checks and unit tests.
import { runStaticChecks } from './support/static-checks.ts';
import { conclude } from './support/tally.ts';

conclude([await runStaticChecks()]);
