import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../deploy/servers/ports.ts';
import { startServiceProcess, type Environment, type ServiceProcess } from './service-process.ts';

/** Starts a controller as it is deployed, with its own folder. */
export async function startController(name: string, environment: Environment): Promise<ServiceProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'despatch-controller-'));
  const port = await freePort();
  const metricsOrigin = `http://127.0.0.1:${port}`;
  const started = await startServiceProcess({
    kind: 'controller',
    name,
    folder,
    origin: metricsOrigin,
    metricsOrigin,
    environment: { METRICS_PORT: String(port), POD_NAME: name, ...environment },
  });
  return {
    ...started,
    async [Symbol.asyncDispose]() {
      await started[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
