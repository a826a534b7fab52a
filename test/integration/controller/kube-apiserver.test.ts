import { access } from 'node:fs/promises';
import { KubeConfig, CoreV1Api } from '@kubernetes/client-node';
import { expect, test } from 'vitest';
import { startKubeApiServer } from '#test/support/kube-apiserver.ts';
import { testKube } from '#test/support/servers.ts';

const SETTINGS = '/api/v1/namespaces/default/configmaps';
const settings = (name: string): object => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });

test('data survives a crash of the test API server, and nothing is left after disposal', async () => {
  let kubeconfigPath: string;
  let pid: number;
  {
    await using kube = await startKubeApiServer();
    await kube.applyCrds();
    ({ kubeconfigPath, pid } = kube);
    expect((await kube.request('POST', SETTINGS, settings('kept'))).status).toBe(201);
    await kube.kill();
    await expect(kube.request('GET', SETTINGS)).rejects.toThrow('ECONNREFUSED');
    await kube.restart();
    expect(kube.pid).not.toBe(pid);
    expect((await kube.request('GET', `${SETTINGS}/kept`)).status).toBe(200);
    const listTenants = async () => (await kube.request('GET', '/apis/despatch.dev/v1alpha1/tenants')).status;
    await expect.poll(listTenants).toBe(200);

    kube.freeze();
    const answer = kube.request('GET', `${SETTINGS}/kept`);
    const early = Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 300, 'silence'))]);
    expect(await early).toBe('silence');
    kube.thaw();
    expect((await answer).status).toBe(200);
    kube.freeze();
    ({ pid } = kube);
  }
  expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  await expect(access(kubeconfigPath)).rejects.toThrow('ENOENT');
});

test('a user may do what roles allow, also by kubeconfig, and the audit log names the user', async () => {
  await using kube = await testKube();
  const namespace = await kube.createNamespace();
  const user = kube.addUser(`jane-${namespace}`, ['readers/of+names', namespace]);
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  expect((await user.request('GET', path)).status).toBe(403);
  for (const object of [
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'Role',
      metadata: { name: 'reader', namespace },
      rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['list'] }],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: 'reader', namespace },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: namespace }],
    },
  ]) {
    expect((await kube.apply(object)).status).toBe(201);
  }
  await expect.poll(async () => (await user.request('GET', path)).status).toBe(200);
  expect((await user.request('GET', `${path}/any`)).status).toBe(403);

  const config = new KubeConfig();
  config.loadFromFile(user.kubeconfigPath);
  const list = await config.makeApiClient(CoreV1Api).listNamespacedConfigMap({ namespace });
  expect(list.items).toEqual([]);

  const own = kube.auditLog().filter(({ user: { username } }) => username === user.name);
  expect(new Set(own.map(({ verb, responseStatus }) => `${verb} ${responseStatus?.code}`))).toEqual(
    new Set(['list 403', 'list 200', 'get 403']),
  );
  expect(own[0]?.user.groups).toEqual(['readers/of+names', namespace, 'system:authenticated']);
});

test('the API server enforces the Pod Security level of a namespace', async () => {
  await using kube = await testKube();
  const namespace = await kube.createNamespace({ 'pod-security.kubernetes.io/enforce': 'restricted' });
  const pod = (securityContext: object) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'pod', namespace },
    spec: { containers: [{ name: 'main', image: 'localhost/none', securityContext }] },
  });
  const refused = await kube.apply(pod({}), { dryRun: true });
  expect([refused.status, refused.body.message]).toEqual([
    403,
    expect.stringContaining('violates PodSecurity "restricted:latest"'),
  ]);
  const taken = await kube.apply(
    pod({
      allowPrivilegeEscalation: false,
      runAsNonRoot: true,
      capabilities: { drop: ['ALL'] },
      seccompProfile: { type: 'RuntimeDefault' },
    }),
    { dryRun: true },
  );
  expect(taken.status).toBe(201);
});

test('apply rejects an object with an unknown field or kind', async () => {
  await using kube = await testKube();
  const namespace = await kube.createNamespace();
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x', namespace } };
  const { body } = await kube.apply({ ...object, datum: {} });
  expect(body.message).toContain('.datum: field not declared in schema');
  await expect(kube.apply({ apiVersion: 'v1', kind: 'Pot', metadata: { name: 'x' } })).rejects.toThrow(
    'knows no Pot of v1',
  );
});
