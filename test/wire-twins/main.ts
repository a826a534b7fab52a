// Compares the adapters with the vendors' own SDKs: npm run test:twins.
import { conclude } from '../support/tally.ts';
import { runTwins } from './run-twins.ts';

conclude([await runTwins()]);
