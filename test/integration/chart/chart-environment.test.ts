import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseEnvironment, type Environment } from '#core/platform/config/config.ts';
import { describeVariable } from '#core/platform/config/describe-variable.ts';
import { projectRoot } from '#test/support/command.ts';
import {
  ciValues,
  podTemplates,
  renderChart,
  type PodTemplate,
  type RenderOptions,
} from '#test/support/chart.ts';
import { readDeployments } from '../../../services/configuration.ts';

const deployments = await readDeployments(new URL(`file://${projectRoot}/services/`));
const environments = new Map(deployments.map(({ deployment, environment }) => [deployment, environment]));
const services = [...environments.keys()];

/** Variables that the chart does not set, each with the reason. */
const LEFT_ALONE: Readonly<Record<string, string>> = {
  KUBECONFIG: 'pods use their service account',
  LOCAL_KEYRING_DIR: 'a local keyring cannot be shared by pods',
  WORKER_NAME: 'the host name of a pod is its name',
};

type Container = { env: { name: string; value?: string; valueFrom?: object }[] };
type Source = { secret?: { items: { path: string }[] }; serviceAccountToken?: { path: string } };

describe.each(ciValues())('with the values of ci/%s', (values) => {
  test.each(services)('the environment of %s is a valid configuration of the service', async (service) => {
    const pod = await podOf(service, { values });
    if (pod === undefined) return;
    await using folder = await credentials(pod);
    const env = folder.inside(variablesOf(pod));
    expect(() => parseEnvironment(environments.get(service) as Environment, env)).not.toThrow();
  });
});

test.each(services)('every variable of %s can be set by a chart value', async (service) => {
  const known = variableNames(service).filter((name) => !(name in LEFT_ALONE));
  const pods = await Promise.all(ciValues().map((values) => podOf(service, { values })));
  const set = new Set(
    pods
      .flatMap((pod) => (pod === undefined ? [] : Object.keys(variablesOf(pod))))
      .map((name) => name.replace(/_FILE$/, '')),
  );
  // A variable that is a path has a name that ends in _FILE itself.
  expect(known.filter((name) => !set.has(name.replace(/_FILE$/, '')))).toEqual([]);
});

test.each(['api', 'worker', 'controller'])('%s listens on the address of the values', async (service) => {
  const env = variablesOf((await podOf(service, { set: { listenAddress: '::' } })) as PodTemplate);
  const hosts = Object.entries(env).filter(([name]) => /^(METRICS_)?HOST$/.test(name));
  expect(Object.fromEntries(hosts)).toEqual({
    METRICS_HOST: '::',
    ...(service === 'api' ? { HOST: '::' } : {}),
  });
});

test.each(services)('%s gets no variable that it does not read', async (service) => {
  const known = new Set(variableNames(service));
  for (const values of ciValues().filter((name) => name !== 'migrations-job')) {
    const pod = await podOf(service, { values });
    const given = Object.keys(pod === undefined ? {} : variablesOf(pod));
    expect(given.filter((name) => !known.has(name) && !known.has(name.replace(/_FILE$/, '')))).toEqual([]);
  }
});

test.each(services)('unset chart values equal the defaults of the program %s', async (service) => {
  const pod = await podOf(service, {});
  const given = variablesOf(pod as PodTemplate);
  const differing = Object.entries(shapeOf(service)).flatMap(([name, variable]) => {
    const { default: preset } = describeVariable(variable);
    const isSame = preset === undefined || given[name] === undefined || preset === `\`${given[name]}\``;
    return isSame ? [] : [`${name}: ${given[name]} instead of ${preset}`];
  });
  // Values that differ between releases by design.
  const ownNames = ['CONTROLLER_NAME', 'POD_NAMESPACE', 'VAULT_KUBERNETES_TOKEN_FILE'];
  expect(differing.filter((line) => !ownNames.includes(line.split(':')[0] ?? ''))).toEqual([]);
});

async function podOf(service: string, options: RenderOptions): Promise<PodTemplate | undefined> {
  const pods = podTemplates(await renderChart(options));
  return pods.find(({ spec }) => spec.containers.some(({ name }: { name: string }) => name === service));
}

/** A container's variables; a variable from a Secret or a field reference gets a sample value. */
function variablesOf(pod: PodTemplate): Record<string, string> {
  const [container] = pod.spec.containers as Container[];
  return Object.fromEntries(
    (container?.env ?? []).map(({ name, value }) => [
      name,
      value ?? (name === 'DATABASE_URL' ? SAMPLES['database-url'] : 'pod-a') ?? '',
    ]),
  );
}

const SAMPLES: Readonly<Record<string, string>> = {
  'database-url': 'postgres://u:p@db.example.com/despatch',
  'key-pepper': 'p'.repeat(32),
  'receipt-pepper': 'p'.repeat(32),
};

/** Writes the files that the pod's credentials would be. @returns its variables with the paths of these files. */
async function credentials(pod: PodTemplate) {
  const folder = await mkdtemp(join(tmpdir(), 'despatch-chart-'));
  const volumes = pod.spec.volumes as { name: string; projected?: { sources: Source[] } }[];
  const sources = volumes.find(({ name }) => name === 'credentials')?.projected?.sources ?? [];
  const paths = sources.flatMap(({ secret, serviceAccountToken }) =>
    [...(secret?.items ?? []), ...(serviceAccountToken === undefined ? [] : [serviceAccountToken])].map(
      ({ path }) => path,
    ),
  );
  await Promise.all(paths.map((path) => writeFile(join(folder, path), SAMPLES[path] ?? 'content')));
  return {
    inside: (variables: Record<string, string>) =>
      Object.fromEntries(
        Object.entries(variables).map(([name, value]) => [name, value.replace(/^\/etc\/despatch/, folder)]),
      ),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

function shapeOf(service: string) {
  return Object.assign(
    {},
    ...Object.values(environments.get(service) ?? {}).map(({ shape }) => shape as object),
  ) as Record<string, Parameters<typeof describeVariable>[0]>;
}

function variableNames(service: string): string[] {
  return Object.keys(shapeOf(service));
}
