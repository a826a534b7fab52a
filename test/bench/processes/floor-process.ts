// The floor of acceptance: fastify and zod, and no work behind them.
import { randomUUID } from 'node:crypto';
import { servePlainApi } from './plain-api.ts';

await servePlainApi(() => randomUUID());
