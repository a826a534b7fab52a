import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { VAULT_SERVICES } from '../../../deploy/vault/policies.ts';
import { configureVaultForKubernetes } from '../../../deploy/vault/setup-kubernetes.ts';
import { configureVault } from '../../../deploy/vault/setup.ts';
import { testVault } from '#test/support/servers.ts';

describe('policies for another mount and key prefix', () => {
  test('grant access only to the keys of that mount and prefix', async () => {
    await using vault = await testVault();
    const names = { transitMount: vault.mount, keyPrefix: 'staging-', namePrefix: `${vault.mount}-` };
    const roles = await configureVault({ ...vault, ...names });
    const worker = await logIn(vault, roles.worker);
    const allowed = async (path: string) => {
      const { body } = await vault.request('POST', 'sys/capabilities', { token: worker, paths: [path] });
      return (body as Record<string, string[]>)[path];
    };
    expect(await allowed(`${vault.mount}/decrypt/staging-a`)).toEqual(['update']);
    expect(await allowed(`${vault.mount}/decrypt/despatch-a`)).toEqual(['deny']);
    expect(await allowed('transit/decrypt/staging-a')).toEqual(['deny']);
  });

  test('are refused where another installation has a prefix that begins it, or that it begins', async () => {
    await using vault = await testVault();
    const prepare = (name: string, keyPrefix: string, transitMount = vault.mount) =>
      configureVault({ ...vault, transitMount, keyPrefix, namePrefix: `${vault.mount}-${name}-` });
    await prepare('prod', 'despatch-prod-');
    await prepare('prod', 'despatch-prod-');
    for (const keyPrefix of ['despatch-', 'despatch-prod-', 'despatch-prod-eu-']) {
      await expect(prepare('other', keyPrefix)).rejects.toThrow(
        `Policy ${vault.mount}-prod-api grants keys of ${vault.mount} that begin with "despatch-prod-"`,
      );
    }
    await prepare('staging', 'despatch-staging-');
    await prepare('elsewhere', 'despatch-', `${vault.mount}-more`);
    await vault.request('DELETE', `sys/mounts/${vault.mount}-more`);
  });

  type Vault = Awaited<ReturnType<typeof testVault>>;
  async function logIn(
    vault: Vault,
    { roleId, secretId }: { roleId: string; secretId: string },
  ): Promise<string> {
    const { body } = await vault.request('POST', 'auth/approle/login', {
      role_id: roleId,
      secret_id: secretId,
    });
    return (body as { auth: { client_token: string } }).auth.client_token;
  }
});

describe('AppRole roles', () => {
  test('cannot be locked out by whoever knows a role id and fails to log in', async () => {
    await using vault = await testVault();
    const approleMount = `approle-${vault.mount}`;
    const names = { transitMount: vault.mount, namePrefix: `${vault.mount}-`, approleMount };
    const { worker } = await configureVault({ ...vault, ...names });
    const logIn = async (secretId: string) => {
      const body = { role_id: worker.roleId, secret_id: secretId };
      return (await vault.request('POST', `auth/${approleMount}/login`, body)).status;
    };
    // Vault's default locks a role after five.
    for (let i = 0; i < 6; i += 1) expect(await logIn('guessed')).toBe(400);
    expect(await logIn(worker.secretId)).toBe(200);
    await vault.request('DELETE', `sys/auth/${approleMount}`);
  });
});

describe('roles for service accounts', () => {
  type Asked = { readonly method: string; readonly path: string; readonly body: Record<string, unknown> };

  /**
   * Records the calls to Vault: the tests' Vault lacks the Kubernetes auth method. The end-to-end tests log in to a Vault that
   * has it.
   */
  async function recordingVault(): Promise<
    AsyncDisposable & { readonly address: string; readonly asked: Asked[] }
  > {
    const asked: Asked[] = [];
    const server = createServer((request, response) => {
      void text(request).then((body) => {
        const path = (request.url ?? '').replace('/v1/', '');
        asked.push({
          method: request.method ?? '',
          path,
          body: JSON.parse(body || '{}') as Record<string, unknown>,
        });
        response.writeHead(204).end();
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return {
      address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      asked,
      async [Symbol.asyncDispose]() {
        server.closeAllConnections();
        server.close();
        await once(server, 'close');
      },
    };
  }

  test('bind each service to its own account, namespace, audience and policy', async () => {
    await using vault = await recordingVault();
    const { address, asked } = vault;
    const serviceAccounts = { api: 'd-api', worker: 'd-worker', controller: 'd-controller' };
    const cluster = { host: 'https://kubernetes.default.svc' };
    await configureVaultForKubernetes({
      address,
      rootToken: 'root',
      releaseNamespace: 'messaging',
      serviceAccounts,
      cluster,
    });
    for (const service of VAULT_SERVICES) {
      expect(asked.find(({ path }) => path === `auth/kubernetes/role/despatch-${service}`)?.body).toEqual({
        bound_service_account_names: [`d-${service}`],
        bound_service_account_namespaces: ['messaging'],
        audience: 'vault',
        token_policies: [`despatch-${service}`],
        token_ttl: 3_600,
        token_max_ttl: 86_400,
      });
    }
    expect(asked.map(({ method, path }) => `${method} ${path}`).slice(0, 7)).toEqual([
      'GET sys/policies/acl?list=true',
      'POST sys/mounts/transit',
      'PUT sys/policies/acl/despatch-api',
      'PUT sys/policies/acl/despatch-worker',
      'PUT sys/policies/acl/despatch-controller',
      'POST sys/auth/kubernetes',
      'POST auth/kubernetes/config',
    ]);
  });

  test('do not configure an auth method again that exists already', async () => {
    await using vault = await recordingVault();
    const { address, asked } = vault;
    const serviceAccounts = { api: 'a', worker: 'b', controller: 'c' };
    await configureVaultForKubernetes({
      address,
      rootToken: 'root',
      releaseNamespace: 'messaging',
      serviceAccounts,
      mount: 'k8s-eu',
    });
    const paths = asked.map(({ path }) => path);
    expect(paths).toContain('auth/k8s-eu/role/despatch-api');
    expect(paths.filter((path) => path.endsWith('/config'))).toEqual([]);
  });
});
