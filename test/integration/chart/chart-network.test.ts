import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import ipaddr from 'ipaddr.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { addressBlocker } from '#core/platform/http/egress-guard.ts';
import {
  CHART,
  ciValues,
  podTemplates,
  refusal,
  renderChart,
  type ChartObject,
  type PodTemplate,
} from '#test/support/chart.ts';
import { isAllowed, type Endpoint, type NetworkPolicy, type Pod } from '#test/analysis/network-policy.ts';

/*
 * Computes what each pod of the chart may reach under the rules of NetworkPolicy. Policies and rules are additive, so a single
 * rule says little.
 */
const METADATA = ['169.254.169.254', 'fd00:ec2::254'];
const PRIVATE = [
  '10.0.0.5',
  '100.64.1.1',
  '127.0.0.1',
  '172.20.0.9',
  '192.168.1.1',
  'fd12::1',
  'fe80::1',
  '::1',
];
const INTERNET = ['93.184.216.34', '2606:2800:220:1::1'];
const TCP_PORTS = [
  22, 25, 80, 443, 465, 587, 2379, 2525, 4222, 4318, 5432, 6443, 8080, 8200, 8443, 9090, 10250,
];
/** Backends and neighbours as the files in `ci/` define them. */
const PEERS: Readonly<Record<string, Endpoint>> = {
  // The empty name stands for the release's own namespace.
  database: { namespace: '', labels: { 'cnpg.io/cluster': 'despatch-db' } },
  nats: { namespace: 'nats', labels: { app: 'nats' } },
  vault: { namespace: 'vault', labels: { app: 'vault' } },
  collector: { namespace: 'observability', labels: { app: 'otel-collector' } },
  databaseOutside: { address: '198.51.100.20' },
  natsOutside: { address: '198.51.100.40' },
  vaultOutside: { address: '198.51.100.50' },
  collectorOutside: { address: '203.0.113.200' },
  neighbour: { namespace: 'default', labels: { app: 'shop' } },
  dashboard: { namespace: 'monitoring', labels: { app: 'grafana' } },
};

type Component = 'api' | 'worker' | 'controller' | 'migrate' | 'test';

const componentOf = ({ metadata }: PodTemplate): string =>
  metadata.labels['app.kubernetes.io/component'] ?? '';

const namespaceOf = (objects: readonly ChartObject[]): string =>
  objects.find(({ kind }) => kind === 'Deployment')?.metadata.namespace ?? '';

function podOf(objects: readonly ChartObject[], component: Component): Pod | undefined {
  const template = podTemplates(objects).find((one) => componentOf(one) === component);
  const ports = (template?.spec.containers ?? []).flatMap(
    ({ ports: all = [] }: { ports?: { name: string; containerPort: number }[] }) =>
      all.map(({ name, containerPort }): [string, number] => [name, containerPort]),
  ) as [string, number][];
  return (
    template && {
      namespace: namespaceOf(objects),
      labels: template.metadata.labels,
      ports: Object.fromEntries(ports),
    }
  );
}

const policiesOf = (objects: readonly ChartObject[]): NetworkPolicy[] =>
  objects.filter(({ kind }) => kind === 'NetworkPolicy').map((one) => one as NetworkPolicy);

type View = { readonly objects: readonly ChartObject[]; readonly pod: Pod };

/** Returns the TCP ports of a peer that the pod may reach. */
function portsOf({ objects, pod }: View, peer: Endpoint | string): number[] {
  const policies = policiesOf(objects);
  const end = typeof peer === 'string' ? { address: peer } : peer;
  const isOwn = 'labels' in end && end.namespace === '';
  const peerOf = isOwn ? { ...end, namespace: pod.namespace } : end;
  return TCP_PORTS.filter((port) => isAllowed(policies, 'Egress', pod, { peer: peerOf, port }));
}

/** Values files that create policies. */
const VALUES = ciValues().filter((name) => name !== 'dev');
const OUTSIDE = new Set(['client-certificates', 'credentials-files']);

describe.each(VALUES)('with ci/%s', (values) => {
  const view = async (component: Component): Promise<View | undefined> => {
    const objects = await renderChart({ values });
    const pod = podOf(objects, component);
    return pod && { objects, pod };
  };
  const isOutside = OUTSIDE.has(values);

  test.each(['api', 'worker', 'controller', 'migrate'] as const)(
    'the %s reaches only the ports that it needs of database, NATS and Vault',
    async (component) => {
      const seen = await view(component);
      if (seen === undefined) {
        expect([values, component]).toEqual(['migrations-none', 'migrate']);
        return;
      }
      const isService = component !== 'migrate';
      const [database, nats, vault] = ['database', 'nats', 'vault'].map(
        (name) => PEERS[isOutside ? `${name}Outside` : name] as Endpoint,
      ) as [Endpoint, Endpoint, Endpoint];
      // Ports that these two may reach anywhere: the identity provider and the API server.
      const anywhere = component === 'api' ? [443] : component === 'controller' ? [443, 6443] : [];
      // The worker's providers may have any address outside the private ranges, and some backends are outside too.
      const internet = component === 'worker' && isOutside ? [25, 443, 465, 587, 2525] : [];
      const also = (...ports: number[]): number[] =>
        [...new Set([...anywhere, ...internet, ...ports])].toSorted((a, b) => a - b);
      expect(portsOf(seen, database)).toEqual(also(5432));
      expect(portsOf(seen, nats)).toEqual(isService ? also(4222) : []);
      expect(portsOf(seen, vault)).toEqual(isService ? also(isOutside ? 443 : 8200) : []);
      expect(portsOf(seen, PEERS['neighbour'] as Endpoint)).toEqual(anywhere);
    },
  );

  test('no pod reaches the metadata service on port 80; worker and migrate no private address', async () => {
    for (const component of ['api', 'worker', 'controller', 'migrate'] as const) {
      const seen = await view(component);
      if (seen === undefined) continue;
      for (const address of METADATA) {
        expect(portsOf(seen, address)).not.toContain(80);
        if (component === 'worker' || component === 'migrate') expect(portsOf(seen, address)).toEqual([]);
      }
      if (component !== 'worker' && component !== 'migrate') continue;
      for (const address of PRIVATE) expect([address, portsOf(seen, address)]).toEqual([address, []]);
    }
  });

  test('on the internet the worker reaches provider ports, others only issuer and API server', async () => {
    const reach = async (component: Component) => {
      const seen = await view(component);
      return seen && INTERNET.map((address) => portsOf(seen, address));
    };
    const twice = (...ports: number[]) => [ports, ports];
    // The ports of webhook endpoints too, as the values define them.
    const opened =
      values === 'all-options' ? twice(25, 80, 443, 465, 587, 2525, 8443) : twice(25, 443, 465, 587, 2525);
    expect(await reach('worker')).toEqual(opened);
    expect(await reach('api')).toEqual(twice(443));
    expect(await reach('controller')).toEqual(twice(443, 6443));
    if (values !== 'migrations-none') expect(await reach('migrate')).toEqual(twice());
  });

  test('inbound traffic reaches only the port of the api and the metrics ports', async () => {
    for (const component of ['api', 'worker', 'controller', 'migrate'] as const) {
      const seen = await view(component);
      if (seen === undefined) continue;
      const { objects, pod } = seen;
      const comes = (peer: Endpoint) =>
        [8080, 9090, 22].filter((port) => isAllowed(policiesOf(objects), 'Ingress', pod, { peer, port }));
      const isNarrow = values === 'production';
      const http = component === 'api' && !isNarrow ? [8080] : [];
      const metrics = component === 'migrate' || isNarrow ? [] : [9090];
      expect(comes(PEERS['neighbour'] as Endpoint)).toEqual([...http, ...metrics]);
      expect(comes({ address: '93.184.216.34' })).toEqual(http);
      if (isNarrow && component !== 'migrate') expect(comes(PEERS['dashboard'] as Endpoint)).toEqual([9090]);
    }
  });
});

/** Returns the connections from the pod of `helm test` to the services that a policy of either end prevents. */
function preventedOf(objects: readonly ChartObject[]): string[] {
  const policies = policiesOf(objects);
  const tester = podOf(objects, 'test');
  if (tester === undefined) throw new Error('no pod of `helm test`');
  return (['api', 'worker', 'controller'] as const).flatMap((component) => {
    const pod = podOf(objects, component);
    if (pod === undefined) return [];
    return (component === 'api' ? [8080, 9090] : [9090])
      .filter(
        (port) =>
          !isAllowed(policies, 'Egress', tester, { peer: pod, port }) ||
          !isAllowed(policies, 'Ingress', pod, { peer: tester, port }),
      )
      .map((port) => `${component}:${port}`);
  });
}

describe('the pod of `helm test`', () => {
  test.each(VALUES)(
    'reaches the port of the api and the metrics port of every component, with ci/%s',
    async (values) => {
      expect(preventedOf(await renderChart({ values }))).toEqual([]);
    },
  );

  test('reaches them even if ingress is limited to a gateway and a monitoring namespace', async () => {
    const only = (name: string) => [
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } } },
    ];
    const set = {
      'networkPolicy.apiFrom': only('gateway-system'),
      'networkPolicy.metricsFrom': only('monitoring'),
    };
    const objects = await renderChart({ values: 'production', set });
    expect(preventedOf(objects)).toEqual([]);
    const tester = podOf(objects, 'test');
    const untested = await renderChart({ values: 'production', set: { ...set, 'tests.enabled': false } });
    const api = podOf(untested, 'api');
    if (api === undefined || tester === undefined) throw new Error('no pod');
    for (const port of [8080, 9090])
      expect(isAllowed(policiesOf(untested), 'Ingress', api, { peer: tester, port })).toBe(false);
  });
});

test('the worker reaches the trace collector, but not another private address', async () => {
  for (const [values, name, port] of [
    ['production', 'collector', 4318],
    ['pod-monitor', 'collectorOutside', 443],
  ] as const) {
    const objects = await renderChart({ values });
    const pod = podOf(objects, 'worker');
    if (pod === undefined) throw new Error('no worker');
    expect(portsOf({ objects, pod }, PEERS[name] as Endpoint)).toContain(port);
    expect(portsOf({ objects, pod }, '10.1.2.3')).toEqual([]);
  }
});

describe('the address ranges that the network policy closes to the worker', () => {
  type Range = readonly [ipaddr.IPv4 | ipaddr.IPv6, number];
  type Special = { readonly SpecialRanges: Readonly<Record<string, Range | readonly Range[]>> };
  const isRange = (one: Range | readonly Range[]): one is Range => typeof one[1] === 'number';
  const specialOf = ({ SpecialRanges }: Special): Range[] =>
    Object.values(SpecialRanges).flatMap((one) => (isRange(one) ? [one] : [...one]));
  /** The egress guard's: those that its library knows by name, and one that is public only by its number. */
  const guarded: Range[] = [
    ...specialOf(ipaddr.IPv4.prototype as unknown as Special),
    ...specialOf(ipaddr.IPv6.prototype as unknown as Special),
    ipaddr.parseCIDR('168.63.129.16/32'),
  ];
  const closed = async (): Promise<string[]> => {
    const values = parse(await readFile(join(CHART, 'values.yaml'), 'utf8'));
    return values.worker.egress.exceptCidrs;
  };
  /** Documentation, protocols and names of nodes: no host of a private network has such an address. */
  const UNUSED = [
    '192.0.2.0/24',
    '192.88.99.0/24',
    '198.51.100.0/24',
    '203.0.113.0/24',
    '192.175.48.0/24',
    '192.31.196.0/24',
    '192.52.193.0/24',
    '::/128',
    '::ffff:0:0/96',
    '100::/64',
    '::ffff:0:0:0/96',
    '2001::/32',
    '2001:2::/48',
    '2001:3::/32',
    '2001:4:112::/48',
    '2620:4f:8000::/48',
    '2001:10::/28',
    '2001:20::/28',
    '2001:30::/28',
    '5f00::/16',
    '2001::/23',
    '2001:db8::/32',
    '3fff::/20',
  ];

  test('are all that the egress guard refuses, except those that no private network uses', async () => {
    const ranges = (await closed()).map((cidr) => ipaddr.parseCIDR(cidr));
    const isClosed = ([base, bits]: Range): boolean =>
      ranges.some(
        ([from, length]) => from.kind() === base.kind() && length <= bits && base.match(from, length),
      );
    const open = guarded
      .filter((range) => !isClosed(range))
      .map(([base, bits]) => `${base.toString()}/${bits}`);
    expect(open.toSorted()).toEqual(UNUSED.toSorted());
  });

  test('are refused by the egress guard too', async () => {
    const isBlocked = addressBlocker([]);
    expect((await closed()).filter((cidr) => !isBlocked(cidr.replace(/\/.*/, '')))).toEqual([]);
  });

  test.each(['64:ff9b::a00:1', '64:ff9b:1::a00:1', '2002:a00:1::1', 'fec0::1', '168.63.129.16'])(
    'include %s',
    async (address) => {
      const objects = await renderChart();
      const pod = podOf(objects, 'worker');
      if (pod === undefined) throw new Error('no worker');
      expect(portsOf({ objects, pod }, address)).toEqual([]);
    },
  );
});

describe('network policy values that would open a port too widely are rejected', () => {
  test.each([
    ['networkPolicy.postgres.to', { 'networkPolicy.postgres.to': [] }],
    ['networkPolicy.nats.to', { 'networkPolicy.nats.to': [] }],
    [
      'networkPolicy.vault.to',
      { 'vault.address': 'https://vault.example.com', 'networkPolicy.vault.to': [] },
    ],
    ['networkPolicy.otlp.to', { 'tracing.otlpEndpoint': 'https://otlp.example.com' }],
    ['worker.egress.dnsServers', { 'worker.egress.dnsServers': ['192.0.2.1:443'] }],
  ])('%s', async (name, set) => {
    expect(await refusal({ set })).toContain(`${name}: `);
    expect(await refusal({ set: { ...set, 'networkPolicy.enabled': false } })).toBe('');
  });
});

describe('the NetworkPolicy evaluator of these tests', () => {
  const pod: Pod = { namespace: 'a', labels: { app: 'x' } };
  const policy = (egress: object[]): NetworkPolicy => ({
    metadata: { namespace: 'a' },
    spec: { podSelector: { matchLabels: { app: 'x' } }, policyTypes: ['Egress'], egress },
  });
  const internet = {
    to: [{ ipBlock: { cidr: '0.0.0.0/0', except: ['10.0.0.0/8'] } }],
    ports: [{ port: 443 }],
  };
  const reaches = (policies: NetworkPolicy[], address: string, from = pod) =>
    isAllowed(policies, 'Egress', from, { peer: { address }, port: 443 });

  test('lets a rule without a destination override the exceptions of another, as clusters do', () => {
    expect(reaches([policy([internet])], '10.0.0.1')).toBe(false);
    expect(reaches([policy([internet])], '8.8.8.8')).toBe(true);
    expect(reaches([policy([internet, { ports: [{ port: 443 }] }])], '10.0.0.1')).toBe(true);
    expect(reaches([policy([internet]), policy([{ ports: [{ port: 443 }] }])], '10.0.0.1')).toBe(true);
  });

  test('allows everything to a pod without a policy, and nothing to a pod whose policy has no rules', () => {
    expect(reaches([policy([])], '8.8.8.8')).toBe(false);
    expect(reaches([policy([])], '8.8.8.8', { namespace: 'b', labels: { app: 'x' } })).toBe(true);
    expect(reaches([policy([])], '8.8.8.8', { namespace: 'a', labels: {} })).toBe(true);
  });
});
