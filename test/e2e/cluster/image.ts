import { access, mkdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../../support/command.ts';
import type { ClusterEnvironment } from '../environment.ts';
import { runTool, tryTool } from './run-tool.ts';

export const REPOSITORY = 'localhost/despatch';

/** Tags of the image and of a later one of the same repository, whose schema is newer by one migration. */
export const TAGS = { first: 'e2e-first', second: 'e2e-second' } as const;

export const LATER_MIGRATION = '9000_e2e_upgrade.sql';

/**
 * Changes a table that every request uses, in the way that all migrations do: old code goes on beside it. One such table,
 * as two strong locks in one transaction would deadlock with the requests that take them in the other order.
 */
const LATER_MIGRATION_SQL = 'alter table messages add column e2e_upgraded boolean not null default true;\n';

const BUILD_SECONDS_MAX = 1_500;

/** Builds both images with the project's own Dockerfile and puts them into the cluster. */
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

/** What this machine has installed need not be fetched again, nor can it be where a cluster's network is in the way. */
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
    // Without a daemon, and in containers too, only a chroot needs nothing of the kernel that might be missing.
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
