import { openNats } from '#core/platform/nats/nats.ts';
import type { Nats } from '#core/platform/nats/broker.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';

/** All that a call needs, so that nothing has to be read before it. */
export type BareWake = { readonly id: string; readonly to: string; readonly body: string };

/** The same stream that wakes our worker, so that what differs is the work around it. */
export function openBareNats(): Promise<Nats> {
  const { NATS_URL: url, NATS_PREFIX: prefix } = process.env;
  if (url === undefined || prefix === undefined) throw new Error('NATS_URL and NATS_PREFIX are not set');
  return openNats({
    config: { servers: [url], prefix, replicas: 1 },
    log: createLogger({ level: 'error', component: 'bench' }),
    name: 'bench-bare',
  });
}
