import { BlockList, isIPv6 } from 'node:net';

/** A label selector; without fields it selects everything. */
export type LabelSelector = {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    readonly values?: readonly string[];
  }[];
};

type PolicyPort = {
  readonly protocol?: string;
  readonly port?: number | string;
  readonly endPort?: number;
};
type Peer = {
  readonly podSelector?: LabelSelector;
  readonly namespaceSelector?: LabelSelector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
};
type Rule = {
  readonly ports?: readonly PolicyPort[];
  readonly to?: readonly Peer[];
  readonly from?: readonly Peer[];
};

/** A NetworkPolicy as the API server stores it. */
export type NetworkPolicy = {
  readonly metadata: { readonly namespace?: string };
  readonly spec: {
    readonly podSelector: LabelSelector;
    readonly policyTypes?: readonly ('Ingress' | 'Egress')[];
    readonly ingress?: readonly Rule[];
    readonly egress?: readonly Rule[];
  };
};

export type Pod = {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Container ports by name. */
  readonly ports?: Readonly<Record<string, number>>;
};

/** The other end of a connection: a pod, or an address outside the cluster. */
export type Endpoint = Pod | { readonly address: string };

export type Connection = {
  /** The destination port, for both ends of the connection. */
  readonly port: number;
  readonly protocol?: 'TCP' | 'UDP';
};

/** Labels of namespaces; the label with the namespace's name is implied. */
export type Namespaces = Readonly<Record<string, Readonly<Record<string, string>>>>;

/**
 * Tells whether policies allow a pod to open, or accept, a connection, by the rules of the Kubernetes documentation: a pod that
 * no policy selects for a direction may do everything in it; a selected one may do what any rule of any such policy allows. Rules
 * only add: an `except` does not revoke what another rule allows.
 */
export function isAllowed(
  policies: readonly NetworkPolicy[],
  direction: 'Ingress' | 'Egress',
  pod: Pod,
  { peer, port, protocol = 'TCP' }: Connection & { readonly peer: Endpoint },
  namespaces: Namespaces = {},
): boolean {
  const mine = policies.filter(
    ({ metadata, spec }) =>
      (metadata.namespace ?? 'default') === pod.namespace &&
      selects(spec.podSelector, pod.labels) &&
      typesOf(spec).includes(direction),
  );
  if (mine.length === 0) return true;
  // A port name refers to the pod at the destination.
  const target = direction === 'Ingress' ? pod : peer;
  return mine.some(({ metadata, spec }) =>
    ((direction === 'Ingress' ? spec.ingress : spec.egress) ?? []).some((rule) => {
      const peers = direction === 'Ingress' ? rule.from : rule.to;
      return (
        isPort(rule.ports, { port, protocol }, target) &&
        (peers === undefined ||
          peers.length === 0 ||
          peers.some((one) => isPeer(one, peer, { own: metadata.namespace ?? 'default', namespaces })))
      );
    }),
  );
}

/** Without the field, a policy applies to ingress, and to egress if it has egress rules. */
function typesOf(spec: NetworkPolicy['spec']): readonly ('Ingress' | 'Egress')[] {
  return spec.policyTypes ?? (spec.egress === undefined ? ['Ingress'] : ['Ingress', 'Egress']);
}

function isPort(
  ports: readonly PolicyPort[] | undefined,
  { port, protocol }: Required<Connection>,
  target: Endpoint,
): boolean {
  if (ports === undefined || ports.length === 0) return true;
  return ports.some((one) => {
    if ((one.protocol ?? 'TCP') !== protocol) return false;
    if (one.port === undefined) return true;
    const first =
      typeof one.port === 'number' ? one.port : 'labels' in target ? target.ports?.[one.port] : undefined;
    return first !== undefined && port >= first && port <= (one.endPort ?? first);
  });
}

function isPeer(
  rule: Peer,
  peer: Endpoint,
  { own, namespaces }: { readonly own: string; readonly namespaces: Namespaces },
): boolean {
  if (rule.ipBlock !== undefined) {
    const { cidr, except = [] } = rule.ipBlock;
    return (
      'address' in peer && isIn(cidr, peer.address) && !except.some((range) => isIn(range, peer.address))
    );
  }
  if ('address' in peer) return false;
  const isNamespace =
    rule.namespaceSelector === undefined
      ? peer.namespace === own
      : selects(rule.namespaceSelector, {
          'kubernetes.io/metadata.name': peer.namespace,
          ...namespaces[peer.namespace],
        });
  return isNamespace && (rule.podSelector === undefined || selects(rule.podSelector, peer.labels));
}

function selects(selector: LabelSelector, labels: Readonly<Record<string, string>>): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = labels[key];
      switch (operator) {
        case 'In':
          return value !== undefined && values.includes(value);
        case 'NotIn':
          return value === undefined || !values.includes(value);
        case 'Exists':
          return value !== undefined;
        case 'DoesNotExist':
          return value === undefined;
      }
    })
  );
}

function isIn(cidr: string, address: string): boolean {
  const [base = '', bits = ''] = cidr.split('/');
  const family = isIPv6(base) ? 'ipv6' : 'ipv4';
  if ((family === 'ipv6') !== isIPv6(address)) return false;
  const range = new BlockList();
  range.addSubnet(base, Number(bits), family);
  return range.check(address, family);
}
