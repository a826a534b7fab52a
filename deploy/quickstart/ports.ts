import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort, isFreePort } from '../servers/ports.ts';
import { writePrivateJson } from './state.ts';

export const USUAL_PORTS = {
  api: 8080,
  apiMetrics: 9091,
  workerMetrics: 9092,
  inbox: 8025,
  smtp: 2525,
  standIns: 8071,
  webhooks: 8072,
  issuer: 8090,
  postgres: 5433,
  nats: 4223,
  vault: 8201,
} as const;

type PortName = keyof typeof USUAL_PORTS;
export type Ports = { readonly [Name in PortName]: number };

/**
 * Returns the default ports if they are free, or other free ports with `anyPorts`. Ports of an earlier start are reused if
 * they are free, so that URLs stay valid. All ports differ.
 */
export async function choosePorts(anyPorts: boolean, earlier: Partial<Ports> = {}): Promise<Ports> {
  const chosen = new Set<number>();
  const choose = async (name: PortName): Promise<number> => {
    const usual = USUAL_PORTS[name];
    const wanted = anyPorts ? [earlier[name]].filter((port) => port !== usual) : [usual, earlier[name]];
    for (const port of wanted) {
      if (port !== undefined && !chosen.has(port) && (await isFreePort(port))) return port;
    }
    for (;;) {
      const port = await freePort();
      if (!chosen.has(port)) return port;
    }
  };
  const ports: [PortName, number][] = [];
  for (const name of Object.keys(USUAL_PORTS) as PortName[]) {
    const port = await choose(name);
    chosen.add(port);
    ports.push([name, port]);
  }
  return Object.fromEntries(ports) as Ports;
}

/** Like {@link choosePorts}, with the folder's earlier choice, which is replaced by the new one. */
export async function choosePortsOf(stateDir: string, anyPorts: boolean): Promise<Ports> {
  const file = join(stateDir, 'ports.json');
  const ports = await choosePorts(anyPorts, await readPorts(file));
  await writePrivateJson(file, ports);
  return ports;
}

async function readPorts(file: string): Promise<Partial<Ports>> {
  try {
    const kept = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
    const isPort = (port: unknown): boolean =>
      Number.isInteger(port) && Number(port) > 0 && Number(port) < 65_536;
    return Object.fromEntries(Object.entries(kept).filter(([, port]) => isPort(port)));
  } catch {
    return {};
  }
}
