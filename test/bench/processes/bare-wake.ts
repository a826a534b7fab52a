import { openNats } from '#core/platform/nats/nats.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';

/** Contains everything that a call needs, so that the worker reads nothing before it. */
export type BareWake = { readonly id: string; readonly to: string; readonly body: string };

/** Uses the same stream as the project's wake-ups, so that only the work around it differs. */
export function openBareNats(): Promise<Nats> {
  const { NATS_URL: url, NATS_PREFIX: prefix } = process.env;
  if (url === undefined || prefix === undefined) throw new Error('NATS_URL and NATS_PREFIX are not set');
  return openNats({
    config: { servers: [url], prefix, replicas: 1 },
    log: createLogger({ level: 'error', component: 'bench' }),
    name: 'bench-bare',
  });
}
