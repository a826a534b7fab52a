import { join } from 'node:path';
import { findProgram } from '../../../deploy/servers/program.ts';
import { runTool } from './run-tool.ts';

export type Helm = (args: readonly string[], timeoutSeconds?: number) => Promise<string>;

/** Opens Helm. @param folder keeps its state, so that the user's settings and repositories have no effect. */
export async function openHelm(
  kubeconfig: string,
  folder: string,
  log: (line: string) => void,
): Promise<Helm> {
  const program = await findProgram('helm', { log });
  const env = {
    ...process.env,
    KUBECONFIG: kubeconfig,
    HELM_CACHE_HOME: join(folder, 'helm/cache'),
    HELM_CONFIG_HOME: join(folder, 'helm/config'),
    HELM_DATA_HOME: join(folder, 'helm/data'),
  };
  return (args, timeoutSeconds = 300) =>
    runTool(program, [...args], { env, timeoutMs: (timeoutSeconds + 30) * 1_000 });
}
