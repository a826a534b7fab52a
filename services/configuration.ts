import { access, readdir } from 'node:fs/promises';
import type { Environment } from '#core/platform/config/config.ts';
import type { DeploymentVariables } from '#core/platform/config/config-table.ts';

/** Every folder of `root` that holds a config.ts is a deployment. */
export async function readDeployments(root: URL): Promise<DeploymentVariables[]> {
  const entries = await readdir(root, { withFileTypes: true });
  const deployments: DeploymentVariables[] = [];
  for (const { name } of entries
    .filter((entry) => entry.isDirectory())
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const file = new URL(`${name}/config.ts`, root);
    const exists = await access(file).then(
      () => true,
      () => false,
    );
    if (!exists) continue;
    const exported = (await import(file.href)) as Readonly<Record<string, Environment | undefined>>;
    const environment = exported[`${name}Environment`];
    if (environment === undefined)
      throw new Error(`services/${name}/config.ts exports no ${name}Environment`);
    deployments.push({ deployment: name, environment });
  }
  return deployments;
}
