import { access, mkdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../../support/command.ts';
import type { ClusterEnvironment } from '../environment.ts';
import { runTool, tryTool } from './run-tool.ts';

export const REPOSITORY = 'localhost/despatch';

/** Tags of the image, and of a later image in the same repository whose schema has one more migration. */
export const TAGS = { first: 'e2e-first', second: 'e2e-second' } as const;

export const LATER_MIGRATION = '9000_e2e_upgrade.sql';

/**
 * Changes a table that every request uses, as all migrations do: old code keeps running beside it. It changes only one such
 * table, because two strong locks in one transaction would deadlock with requests that take them in the other order.
 */
const LATER_MIGRATION_SQL = 'alter table messages add column e2e_upgraded boolean not null default true;\n';

const BUILD_SECONDS_MAX = 1_500;

/** Builds both images with the project's own Dockerfile and loads them into the cluster. */
export async function buildImages(
  { nodeImage, loadImage }: ClusterEnvironment,
  folder: string,
  log: (line: string) => void,
): Promise<void> {
  const builder = await findBuilder();
  const base = nodeImage === undefined ? [] : ['--build-arg', `NODE_IMAGE=${nodeImage}`];
  log(`building the image with ${builder.name}`);
  await builder.build(
    [...base, '-t', `${REPOSITORY}:${TAGS.first}`, '-f', 'deploy/Dockerfile', '.'],
    projectRoot,
  );

  const later = join(folder, 'later-image');
  await mkdir(later, { recursive: true });
  await writeFile(join(later, LATER_MIGRATION), LATER_MIGRATION_SQL, { mode: 0o644 });
  const lines = [
    `FROM ${REPOSITORY}:${TAGS.first}`,
    `COPY ${LATER_MIGRATION} services/core/store/migrations/`,
    'LABEL e2e=second',
  ];
  await writeFile(join(later, 'Dockerfile'), `${lines.join('\n')}\n`);
  await builder.build(['-t', `${REPOSITORY}:${TAGS.second}`, '.'], later);

  for (const tag of Object.values(TAGS)) {
    const archive = join(folder, `${tag}.tar`);
    log(`loading ${REPOSITORY}:${tag}`);
    await builder.save(`${REPOSITORY}:${tag}`, archive);
    const [program = '', ...args] = loadImage.split(' ');
    await runTool(program, [...args, archive], { timeoutMs: 600_000 });
    await rm(archive);
  }
}

type Builder = {
  readonly name: string;
  readonly build: (args: readonly string[], folder: string) => Promise<unknown>;
  readonly save: (image: string, archive: string) => Promise<unknown>;
};

/** Packages in this machine's npm cache need no download, which some cluster networks would block. */
async function npmCache(): Promise<string[]> {
  const folder = process.env['npm_config_cache'] ?? join(homedir(), '.npm');
  const isThere = await access(folder).then(
    () => true,
    () => false,
  );
  return isThere ? ['--volume', `${folder}:/root/.npm`] : [];
}

async function findBuilder(): Promise<Builder> {
  for (const name of ['buildah', 'docker', 'podman'] as const) {
    if ((await tryTool(name, ['--version']).catch(() => ({ code: 1 }))).code !== 0) continue;
    const isBuildah = name === 'buildah';
    // Without a daemon, also in containers, chroot isolation is the only one that needs no kernel feature that may be missing.
    const verb = isBuildah ? ['bud', '--isolation', 'chroot', '--layers'] : ['build'];
    const cache = name === 'docker' ? [] : await npmCache();
    return {
      name,
      build: (args, cwd) =>
        runTool(name, [...verb, ...cache, ...args], { cwd, timeoutMs: BUILD_SECONDS_MAX * 1_000 }),
      save: (image, archive) =>
        runTool(
          name,
          isBuildah ? ['push', image, `docker-archive:${archive}:${image}`] : ['save', '-o', archive, image],
        ),
    };
  }
  throw new Error('nothing here builds images: install buildah, docker or podman');
}
