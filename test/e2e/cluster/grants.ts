import type { AuditEntry } from './audit-log.ts';
import type { Kubectl } from './kubectl.ts';

/** One verb on one resource that a service account may use. */
export type Grant = {
  readonly account: string;
  /** `*`: all namespaces, and cluster-scoped objects. */
  readonly namespace: string;
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  /** Empty: all. */
  readonly names: readonly string[];
};

type Rule = {
  readonly verbs: readonly string[];
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
};

type Binding = {
  readonly metadata: { readonly namespace?: string };
  readonly roleRef: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly {
    readonly kind: string;
    readonly name: string;
    readonly namespace?: string;
  }[];
};

/** Returns the grants that bindings give to the service accounts of a namespace by name. */
export async function grantsTo(kubectl: Kubectl, namespace: string): Promise<Grant[]> {
  const read = async <T>(kind: string): Promise<T[]> => {
    const text = await kubectl.run(['get', kind, '--all-namespaces', '-o', 'json']);
    return (JSON.parse(text) as { items: T[] }).items;
  };
  const bindings = [
    ...(await read<Binding>('rolebindings')),
    ...(await read<Binding>('clusterrolebindings')),
  ];
  const grants: Grant[] = [];
  for (const { metadata, roleRef, subjects = [] } of bindings) {
    const accounts = subjects.filter((one) => one.kind === 'ServiceAccount' && one.namespace === namespace);
    if (accounts.length === 0) continue;
    const place = roleRef.kind === 'Role' ? ['--namespace', metadata.namespace ?? ''] : [];
    const text = await kubectl.run(['get', roleRef.kind, roleRef.name, ...place, '-o', 'json']);
    const { rules } = JSON.parse(text) as { rules: Rule[] };
    for (const { name } of accounts) {
      grants.push(...rules.flatMap((rule) => grantsOf(rule, name, metadata.namespace ?? '*')));
    }
  }
  return grants;
}

export function grantsOf(rule: Rule, account: string, namespace: string): Grant[] {
  const { verbs, apiGroups = [], resources = [], resourceNames: names = [] } = rule;
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.map((verb) => ({ account, namespace, verb, group, resource, names })),
    ),
  );
}

/** Describes the grants that no request used. */
export function unusedGrants(grants: readonly Grant[], entries: readonly AuditEntry[]): string[] {
  return grants.filter((grant) => !entries.some((entry) => isCovered(entry, grant))).map(wordsOf);
}

/** Describes the requests that authorization refused. */
export function forbiddenRequests(entries: readonly AuditEntry[]): string[] {
  const words = entries
    .filter(({ isForbidden, code }) => isForbidden || code === 403)
    .map(({ account, verb, group, resource, namespace, name }) =>
      wordsOf({ account, verb, group, resource, namespace, names: name === '' ? [] : [name] }),
    );
  return [...new Set(words)];
}

function isCovered(entry: AuditEntry, grant: Grant): boolean {
  return (
    !entry.isForbidden &&
    entry.account === grant.account &&
    (grant.namespace === '*' || grant.namespace === entry.namespace) &&
    verbsOf(entry).includes(grant.verb) &&
    grant.group === entry.group &&
    grant.resource === entry.resource &&
    (grant.names.length === 0 || grant.names.includes(entry.name))
  );
}

/** An apply is a patch; one that creates the object also needs the right to create it. */
function verbsOf({ verb, code }: AuditEntry): string[] {
  return verb === 'patch' && code === 201 ? ['patch', 'create'] : [verb];
}

function wordsOf({ account, namespace, verb, group, resource, names }: Grant): string {
  const what = group === '' ? resource : `${resource}.${group}`;
  const which = names.length === 0 ? '' : ` ${names.join()}`;
  return `${account} may ${verb} ${what}${which} in ${namespace === '' ? '-' : namespace}`.replace(
    'in *',
    'everywhere',
  );
}
