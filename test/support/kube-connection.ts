import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Agent, request as send } from 'undici';
import { parse } from 'yaml';
import { signClient } from './certificates.ts';
import { projectRoot } from './command.ts';

/** The data that a process needs to access a cluster's API server as admin and to create users. */
export type KubeAccess = {
  /** `https://127.0.0.1:<port>`. */
  readonly url: string;
  readonly adminToken: string;
  /** Contains the authority's `ca.pem` and `ca.key`. */
  readonly tlsDir: string;
  readonly auditFile: string;
};

export type KubeAnswer = {
  readonly status: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies are what a test expects them to be
  readonly body: any;
  /** The server's warnings about an object that it accepted. */
  readonly warnings: readonly string[];
};

/** Media types; both default to `application/json`. */
export type CallTypes = { readonly contentType?: string; readonly accept?: string };

export type KubeObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name?: string;
    readonly namespace?: string;
    readonly [field: string]: unknown;
  };
  readonly [field: string]: unknown;
};

export type ApplyOptions = {
  /** Default `test`. */
  readonly fieldManager?: string;
  /** Takes over fields from other managers. Default true. */
  readonly force?: boolean;
  readonly dryRun?: boolean;
  /** For example `status`. */
  readonly subresource?: string;
};

export type KubeUser = {
  readonly name: string;
  /** Path of a kubeconfig that contains the certificates and is readable by its owner. */
  readonly kubeconfigPath: string;
  /** Makes one call with a JSON body. Returns an answer for every status. */
  request(method: string, path: string, body?: unknown, types?: CallTypes): Promise<KubeAnswer>;
  /** Applies an object of any kind on the server; unknown fields are refused. */
  apply(object: KubeObject, options?: ApplyOptions): Promise<KubeAnswer>;
};

/** The fields of an audit log entry that tests read; the complete type is `audit.k8s.io/v1` Event. */
export type AuditEntry = {
  readonly verb: string;
  readonly requestURI: string;
  readonly user: { readonly username: string; readonly groups?: readonly string[] };
  readonly userAgent?: string;
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
};

/** An API server with its admin's access. */
export type KubeConnection = AsyncDisposable &
  KubeUser & {
    readonly url: string;
    /** Creates a user with a client certificate, who has only the rights of `groups`, including `system:authenticated`. */
    addUser(name: string, groups?: readonly string[]): KubeUser;
    /**
     * Installs the manifests of `crds/` and returns once their kinds are served. The server delays the first creation of an
     * object whose kind is younger than two seconds until then.
     */
    applyCrds(): Promise<void>;
    /** Creates a namespace with the service account `default`, which no controller manager creates here. Returns its name. */
    createNamespace(labels?: Readonly<Record<string, string>>): Promise<string>;
    /** Returns every request that has finished so far. */
    auditLog(): AuditEntry[];
  };

/** Longer than any request may take here, except watches. */
const HANGS_MS = 30_000;

export function connectKube(access: KubeAccess): KubeConnection {
  const { url, tlsDir, adminToken, auditFile } = access;
  const ca = readFileSync(join(tlsDir, 'ca.pem'), 'utf8');
  const agents: Agent[] = [];
  const agentWith = (client: { cert?: string; key?: string } = {}): Agent => {
    const agent = new Agent({ connect: { ca, ...client } });
    agents.push(agent);
    return agent;
  };
  const kubeconfigOf = (name: string, credentials: Readonly<Record<string, string>>): string =>
    writeKubeconfig(join(tlsDir, `kubeconfig-${randomUUID()}`), { url, ca, name, credentials });

  const admin: KubeUser = {
    name: 'admin',
    kubeconfigPath: kubeconfigOf('admin', { token: adminToken }),
    ...client(url, agentWith(), { authorization: `Bearer ${adminToken}` }),
  };
  return {
    ...admin,
    url,
    addUser(name, groups) {
      const { certificate, key } = signClient(tlsDir, name, groups);
      const kubeconfigPath = kubeconfigOf(name, {
        'client-certificate-data': base64(certificate),
        'client-key-data': base64(key),
      });
      return { name, kubeconfigPath, ...client(url, agentWith({ cert: certificate, key }), {}) };
    },
    applyCrds: () => applyCrds(admin),
    createNamespace: (labels = {}) => createNamespace(admin, labels),
    auditLog: () =>
      readFileSync(auditFile, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as AuditEntry),
    async [Symbol.asyncDispose]() {
      await Promise.all(agents.map((agent) => agent.destroy()));
    },
  };
}

function client(
  url: string,
  dispatcher: Agent,
  headers: Readonly<Record<string, string>>,
): Pick<KubeUser, 'request' | 'apply'> {
  const request: KubeUser['request'] = async (method, path, body, types = {}) => {
    const { contentType = 'application/json', accept = 'application/json' } = types;
    const answer = await send(url + path, {
      dispatcher,
      method: method as 'GET',
      headers: { accept, 'content-type': contentType, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(HANGS_MS),
    });
    const text = await answer.body.text();
    const warnings = [answer.headers['warning'] ?? []].flat().map(warningText);
    return { status: answer.statusCode, body: parseJson(text), warnings };
  };
  return {
    request,
    async apply(object, { fieldManager = 'test', force = true, dryRun = false, subresource } = {}) {
      const query = new URLSearchParams({
        fieldManager,
        force: String(force),
        fieldValidation: 'Strict',
        ...(dryRun ? { dryRun: 'All' } : {}),
      });
      const path = await pathOf(request, object);
      const target = subresource === undefined ? path : `${path}/${subresource}`;
      // JSON is valid YAML.
      return request('PATCH', `${target}?${query.toString()}`, object, {
        contentType: 'application/apply-patch+yaml',
      });
    },
  };
}

/** Returns the text of a header such as `299 - "unknown field"`. */
function warningText(header: string): string {
  return JSON.parse(header.slice(header.indexOf('"'))) as string;
}

/** Some answers, such as that of `/readyz`, are plain text. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

type ResourceList = { resources?: { name: string; kind: string; namespaced: boolean }[] };

/** Returns the path of an object from the server's discovery. */
async function pathOf(request: KubeUser['request'], object: KubeObject): Promise<string> {
  const { apiVersion, kind, metadata } = object;
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const { body } = await request('GET', root);
  const found = (body as ResourceList).resources?.find(
    (resource) => resource.kind === kind && !resource.name.includes('/'),
  );
  if (found === undefined) throw new Error(`the API server knows no ${kind} of ${apiVersion}`);
  const namespace = found.namespaced ? `/namespaces/${metadata.namespace ?? 'default'}` : '';
  return `${root}${namespace}/${found.name}/${metadata.name}`;
}

async function applyCrds(admin: KubeUser): Promise<void> {
  const folder = join(projectRoot, 'crds');
  const manifests = readdirSync(folder).map(
    (file) => parse(readFileSync(join(folder, file), 'utf8')) as KubeObject,
  );
  await Promise.all(manifests.map((manifest) => installCrd(admin, manifest)));
}

/** Applies a definition and waits until its kind is served. @throws when the server refuses it. */
export async function installCrd(admin: KubeUser, manifest: KubeObject): Promise<void> {
  const { status, body } = await admin.apply(manifest);
  if (status >= 300) throw new Error(`${manifest.metadata.name}: ${JSON.stringify(body)}`);
  const { group, names, versions } = manifest['spec'] as {
    group: string;
    names: { plural: string };
    versions: { name: string }[];
  };
  const path = `/apis/${group}/${versions[0]?.name}/${names.plural}?limit=1`;
  const deadline = Date.now() + HANGS_MS;
  while ((await admin.request('GET', path)).status !== 200) {
    if (Date.now() > deadline) throw new Error(`${manifest.metadata.name} was not served in time`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function createNamespace(admin: KubeUser, labels: Readonly<Record<string, string>>): Promise<string> {
  const name = `test-${randomUUID().slice(0, 13)}`;
  const create = async (path: string, object: KubeObject): Promise<void> => {
    const { status, body } = await admin.request('POST', path, object);
    if (status !== 201) throw new Error(`${object.kind} ${name}: ${JSON.stringify(body)}`);
  };
  await create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
  await create(`/api/v1/namespaces/${name}/serviceaccounts`, {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: 'default' },
  });
  return name;
}

type Kubeconfig = { url: string; ca: string; name: string; credentials: Readonly<Record<string, string>> };

function writeKubeconfig(path: string, { url, ca, name, credentials }: Kubeconfig): string {
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server: url, 'certificate-authority-data': base64(ca) } }],
    users: [{ name, user: credentials }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: name } }],
    'current-context': 'test',
  };
  writeFileSync(path, JSON.stringify(kubeconfig), { mode: 0o600 });
  return path;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
