import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createApiClient, type ApiClient } from '../../deploy/quickstart/api-client.ts';
import { PEOPLE } from '../../deploy/quickstart/people.ts';
import { openNode, untilEachReady, type Node } from './node.ts';
import { openServers, WORKERS, type Servers } from './servers.ts';
import { makeTenants, type TenantSet } from './tenants.ts';

/** The service as it is deployed, with access to everything that a fault can break. */
export type Rig = AsyncDisposable &
  Servers & {
    /** Contains logs and ledgers. */
    readonly folder: string;
    readonly apis: readonly Node[];
    readonly workers: readonly Node[];
    /** Calls the public API through whichever api process answers, and retries until one does. */
    readonly insist: <T>(work: (client: ApiClient) => Promise<T>) => Promise<T>;
    readonly platformToken: string;
    readonly tenants: TenantSet;
  };

const START_MS_MAX = 90_000;
const INSIST_TURNS_MAX = 80;
const INSIST_PAUSE_MS = 250;

export async function openRig(tenantCount: number, log: (line: string) => void): Promise<Rig> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'despatch-fault-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const servers = await openServers(folder, stack, log);
  const open = (kind: 'api' | 'worker', names: readonly string[]): Promise<Node[]> =>
    Promise.all(names.map((name) => openNode(kind, name, servers, folder, stack)));
  const [apis, workers] = await Promise.all([open('api', ['api-1', 'api-2']), open('worker', WORKERS)]);
  const unready = await untilEachReady([...apis, ...workers], START_MS_MAX);
  if (unready.length > 0) throw new Error(`not all processes started: ${unready.join('; ')}`);
  servers.providers.tell({ kind: 'report', origins: apis.map(({ service }) => service.origin) });
  const platformToken = await servers.mint(PEOPLE.platform.sub);
  const tenants = await makeTenants({
    origin: apis[0]?.service.origin ?? '',
    ask: servers.ask,
    platformToken,
    mint: servers.mint,
    count: tenantCount,
    receiverOrigin: servers.receiverOrigin,
  });
  for (const { path, keys } of tenants.endpoints) servers.receiver.tell({ kind: 'know', path, keys });
  const owned = stack.move();
  return {
    ...servers,
    folder,
    apis,
    workers,
    insist: insistOn(apis),
    platformToken,
    tenants,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function insistOn(apis: readonly Node[]): Rig['insist'] {
  const clients = apis.map(({ service }) => createApiClient(service.origin, () => {}));
  return async (work) => {
    for (let turn = 0; ; turn++) {
      try {
        return await work(clients[turn % clients.length] as ApiClient);
      } catch (error) {
        if (turn === INSIST_TURNS_MAX) throw error;
        await new Promise((resolve) => setTimeout(resolve, INSIST_PAUSE_MS));
      }
    }
  };
}
