import { freePort, portOrFree } from '../servers/ports.ts';

export const USUAL_PORTS = {
  api: 8080,
  apiMetrics: 9091,
  workerMetrics: 9092,
  inbox: 8025,
  smtp: 2525,
  twilio: 8071,
  fcm: 8072,
  'whatsapp-cloud': 8073,
  issuer: 8090,
  postgres: 5433,
  nats: 4223,
  vault: 8201,
} as const;

export type Ports = { readonly [Name in keyof typeof USUAL_PORTS]: number };

/** The usual ports where nothing listens on them, or any free ones. */
export async function choosePorts(anyPorts: boolean): Promise<Ports> {
  const entries = Object.entries(USUAL_PORTS).map(
    async ([name, usual]) => [name, await (anyPorts ? freePort() : portOrFree(usual))] as const,
  );
  return Object.fromEntries(await Promise.all(entries)) as Ports;
}
