// `npm run test:e2e`; see --help and README.md.
import { once } from 'node:events';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../support/command.ts';
import { conclude } from '../support/tally.ts';
import { diagnose } from './cluster/diagnose.ts';
import { readEnvironment } from './environment.ts';
import { faults } from './items/faults.ts';
import { install } from './items/install.ts';
import { limits } from './items/limits.ts';
import { rights } from './items/rights.ts';
import { rollout } from './items/rollout.ts';
import { twoReleases } from './items/two-releases.ts';
import { HELP, parseOptions, type EndToEndOptions } from './options.ts';
import { runItems } from './run-items.ts';
import { openStage } from './stage.ts';

const ITEMS = [install, limits, rollout, faults, twoReleases, rights];

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const log = (line: string): void => void process.stderr.write(`${line}\n`);

async function main(options: EndToEndOptions): Promise<void> {
  const environment = readEnvironment(process.env);
  const folder = join(projectRoot, '.despatch', `e2e-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`);
  print(`seed ${options.seed}`);
  await using stage = await openStage({
    environment,
    options,
    folder,
    log,
    note: (line) => print(`        ${line}`),
  });
  const { kubectl, namespaces } = stage;
  const tally = await runItems(
    ITEMS.filter(({ number }) => options.items.includes(number)),
    {
      stage,
      print,
      async diagnose(what) {
        const place = join(folder, what.replaceAll(/[^a-z0-9]+/gi, '-').slice(0, 60));
        const loud = await diagnose(kubectl, namespaces, place);
        await cp(join(stage.backends.postgres.dir, 'server.log'), join(place, 'postgres.log'));
        return loud;
      },
    },
  );
  if (options.keeps) {
    log(
      `all of it stays until Ctrl-C: KUBECONFIG=${environment.kubeconfig}, namespaces ${namespaces.join(', ')}`,
    );
    await once(process, 'SIGINT');
  }
  conclude([tally]);
}

// The processes that were started end with this one.
process.once('SIGTERM', () => process.exit(143));

const options = parseOptions(process.argv.slice(2));
if (options === 'help') process.stdout.write(HELP);
else {
  if (!options.keeps) process.once('SIGINT', () => process.exit(130));
  await main(options);
}
