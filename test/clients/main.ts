// Runs generated clients against the api: npm run test:clients.
import { conclude } from '../support/tally.ts';
import { runClients } from './run-clients.ts';

conclude([await runClients()]);
