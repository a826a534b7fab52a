import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { podTemplates, renderChart, type ChartObject } from '#test/support/chart.ts';
import { projectRoot } from '#test/support/command.ts';
import type { KubeConnection, KubeObject } from '#test/support/kube-connection.ts';
import { testKube } from '#test/support/servers.ts';
import { runProgram } from '../../../deploy/servers/run-program.ts';
import { createTokenVerifier } from '../../../services/api/auth/bearer.ts';

const EXAMPLES = 'deploy/examples';
/** Kinds of other projects, whose CRDs no server here has. */
const FOREIGN = /^(cert-manager\.io|postgresql\.cnpg\.io|argoproj\.io)\//;

const read = (path: string): Promise<string> => readFile(join(projectRoot, path), 'utf8');
const documents = (text: string): KubeObject[] =>
  parseAllDocuments(text).map((document) => {
    if (document.errors[0] !== undefined) throw document.errors[0];
    return document.toJS() as KubeObject;
  });
const madeSecrets = async (): Promise<KubeObject[]> =>
  documents(await runProgram('sh', [join(projectRoot, EXAMPLES, 'secrets.sh'), 'despatch', 'nats']));

async function firstOf(path: string): Promise<KubeObject> {
  return documents(await read(path))[0] as KubeObject;
}

async function manifests(): Promise<[path: string, objects: KubeObject[]][]> {
  const paths = (await readdir(join(projectRoot, 'deploy'), { recursive: true }))
    .filter((path) => /^(examples|local)\/.*\.yaml$/.test(path) && !/(values|kind)\.yaml$/.test(path))
    .map((path) => `deploy/${path}`);
  return Promise.all(paths.map(async (path) => [path, documents(await read(path))]));
}

describe('the API server', () => {
  let kube: KubeConnection;
  beforeAll(async () => {
    kube = await testKube();
    for (const name of ['despatch', 'nats', 'argocd'])
      await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  });

  test('accepts every example object of a kind that it serves', async () => {
    const all = [...(await manifests()), ['secrets.sh', await madeSecrets()] as const];
    expect(all.length).toBeGreaterThan(6);
    for (const [path, objects] of all) {
      for (const object of objects.filter(({ apiVersion }) => !FOREIGN.test(apiVersion))) {
        const { status, body } = await kube.apply(inNamespace(object), { dryRun: true });
        expect([path, object.kind, status < 300, body.message]).toEqual([path, object.kind, true, undefined]);
      }
    }
  });

  test("issues a service account token that the api accepts for the example tenant's owner", async () => {
    const values = parse(await read(`${EXAMPLES}/values.yaml`)) as { api: { oidc: { audience: string } } };
    const { audience } = values.api.oidc;
    const account = await firstOf(`${EXAMPLES}/sign-in.yaml`);
    await kube.apply(account);
    const path = `/api/v1/namespaces/despatch/serviceaccounts/${account.metadata.name}/token`;
    const { body } = await kube.request('POST', path, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { audiences: [audience], expirationSeconds: 3_600 },
    });
    const { body: keys } = await kube.request('GET', '/openid/v1/jwks', undefined, {
      accept: 'application/jwk-set+json',
    });
    await using issuer = await serveJson(keys);
    const verify = createTokenVerifier({
      issuer: 'https://kubernetes.default.svc',
      audience,
      jwksUrl: issuer.url,
      algorithms: ['RS256', 'ES256'],
      tokenTypes: ['at+jwt', 'jwt'],
    });
    const tenant = await firstOf(`${EXAMPLES}/tenant.yaml`);
    const { owners } = tenant['spec'] as { owners: { subject: string }[] };
    expect(await verify(body.status.token as string)).toMatchObject({ subject: owners[0]?.subject });
  });

  /** An object without a namespace goes to the namespace of the command line. */
  function inNamespace(object: KubeObject): KubeObject {
    const { namespace = 'despatch' } = object.metadata;
    const isClusterScoped = /^(Namespace|ClusterRoleBinding)$/.test(object.kind);
    return isClusterScoped ? object : { ...object, metadata: { ...object.metadata, namespace } };
  }
});

describe('the example for the chart', () => {
  test('mounts only Secrets and keys that the other examples create', async () => {
    const made = new Set(
      (await madeSecrets()).filter(({ metadata }) => metadata.namespace === 'despatch').flatMap(keysOf),
    );
    // Created by CloudNativePG and by the command that copies the certificate authority.
    for (const key of ['despatch-db-ca/ca.crt', 'backends-ca/ca.crt']) made.add(key);
    const asked = mounted(await renderChart({ values: join(projectRoot, EXAMPLES, 'values.yaml') }));
    expect(asked.length).toBeGreaterThan(8);
    expect(asked.filter((key) => !made.has(key))).toEqual([]);
  });

  test('connects with the database roles that the examples create', async () => {
    const cluster = await firstOf(`${EXAMPLES}/cloudnative-pg/cluster.yaml`);
    const { managed } = cluster['spec'] as {
      managed: { roles: { name: string; passwordSecret?: { name: string } }[] };
    };
    const secrets = await madeSecrets();
    const dataOf = (name: string) =>
      secrets.find(({ metadata }) => metadata.name === name && metadata.namespace === 'despatch')?.[
        'stringData'
      ] as Record<string, string>;
    const script = await read('deploy/postgres/bootstrap.sql');
    for (const [key, uri] of Object.entries(dataOf('despatch-postgres'))) {
      const { username, password, pathname } = new URL(uri);
      const role = managed.roles.find(({ name }) => name === username);
      expect([key, username, pathname]).toEqual([key, `despatch_${key.replace('-uri', '')}`, '/despatch']);
      expect(dataOf(role?.passwordSecret?.name ?? '')).toEqual({ username, password });
      expect(script).toContain(username);
    }
  });

  test('generates new passwords each time, without characters that a URL would escape', async () => {
    const [first, second] = [JSON.stringify(await madeSecrets()), JSON.stringify(await madeSecrets())];
    expect(first).not.toBe(second);
    const values = (await madeSecrets()).flatMap(({ stringData }) =>
      Object.values(stringData as Record<string, string>),
    );
    expect(values.filter((value) => !value.startsWith('postgres://') && !/^[a-z0-9_]+$/.test(value))).toEqual(
      [],
    );
  });
});

test('the Argo CD example renders with the chart, and its migration is a plain Job', async () => {
  const application = await firstOf(`${EXAMPLES}/argo-cd/application.yaml`);
  const { source } = application['spec'] as { source: { path: string; helm: { valuesObject: object } } };
  expect(source.path).toBe('charts/despatch');
  const objects = await renderChart({ values: null, set: source.helm.valuesObject });
  const [job] = objects.filter(({ kind, metadata }) => kind === 'Job' && metadata.name.includes('migrate'));
  expect(job?.spec.ttlSecondsAfterFinished).toBeUndefined();
  expect(job?.metadata.annotations?.['helm.sh/hook']).toBeUndefined();
});

test('local development finds its Secret keys, its backends and the paths in its Tiltfile', async () => {
  const objects = await renderChart({ values: join(projectRoot, 'deploy/local/values.yaml') });
  const secret = objects.find(({ kind }) => kind === 'Secret') as KubeObject;
  const made = new Set(keysOf(secret));
  expect(mounted(objects).filter((key) => !made.has(key))).toEqual([]);
  const services = documents(await read('deploy/local/backends.yaml')).filter(
    ({ kind }) => kind === 'Service',
  );
  expect(new Set(services.map(({ metadata }) => metadata.name))).toEqual(
    new Set(['nats', 'postgres', 'vault']),
  );
  const tiltfile = await read('Tiltfile');
  for (const path of tiltfile.match(/(?:deploy|charts)\/[\w./-]+/g) ?? [])
    await expect(readdirOrFile(path)).resolves.toBeDefined();
});

test('the local backends name their namespace, and the Tiltfile runs no kubectl apply', async () => {
  // What `kubectl apply --dry-run` prints of an object that exists is the object in the cluster.
  expect(await read('Tiltfile')).not.toContain('kubectl apply');
  const objects = documents(await read('deploy/local/backends.yaml'));
  expect(
    objects.filter(
      ({ kind, metadata }) => (kind === 'ClusterRoleBinding') === (metadata.namespace === 'despatch'),
    ),
  ).toEqual([]);
});

test('the kind cluster has two zones', async () => {
  const { nodes } = parse(await read('deploy/local/kind.yaml')) as {
    nodes: { labels?: Record<string, string> }[];
  };
  expect(nodes.flatMap(({ labels }) => Object.values(labels ?? {}))).toEqual(['a', 'b']);
});

async function serveJson(content: unknown): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(content));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function keysOf({ metadata, stringData }: KubeObject): string[] {
  return Object.keys(stringData as object).map((key) => `${metadata.name}/${key}`);
}

/** The Secrets and keys that pods mount, as `name/key`. */
function mounted(objects: readonly ChartObject[]): string[] {
  type Volume = { projected?: { sources: { secret?: { name: string; items: { key: string }[] } }[] } };
  return podTemplates(objects).flatMap(({ spec }) =>
    (spec.volumes as Volume[]).flatMap(({ projected }) =>
      (projected?.sources ?? []).flatMap(({ secret }) =>
        (secret?.items ?? []).map(({ key }) => `${secret?.name}/${key}`),
      ),
    ),
  );
}

async function readdirOrFile(path: string): Promise<unknown> {
  return readdir(join(projectRoot, path)).catch(() => read(path));
}
