import { Counter, type Registry } from 'prom-client';
import { createTenantLabels, OTHER_TENANTS } from './tenant-labels.ts';

export type TenantMetricsOptions = {
  /** Number of tenants with series of their own. Default 0: no metric names a tenant. */
  readonly tenantsMax?: number;
};

/** The series of each tenant: one for `name` itself, or one per word of `label`. */
type TenantCounter = {
  readonly name: string;
  readonly help: string;
  readonly label?: { readonly name: string; readonly words: readonly string[] };
};

/**
 * Creates counters with a label for the tenant, for at most `most` tenants at a time and the others together. With 0, the
 * default, there are none: not every reader of metrics may know the tenants, and series cost memory.
 * @returns functions that count, by the counters' keys.
 */
export function tenantCounters<Key extends string>(
  registry: Registry,
  most: number,
  wanted: Readonly<Record<Key, TenantCounter>>,
): Record<Key, (tenantId: string, word?: string) => void> {
  const keys = Object.keys(wanted) as Key[];
  if (most === 0) return recordOf(keys, () => () => undefined);

  const counters = recordOf(keys, (key) => {
    const { name, help, label } = wanted[key];
    const labelNames = label === undefined ? ['tenant'] : ['tenant', label.name];
    return new Counter({ name, help, labelNames, registers: [registry] });
  });
  const eachSeries = (tenant: string, visit: (key: Key, labels: Record<string, string>) => void): void => {
    for (const key of keys) {
      const { label } = wanted[key];
      if (label === undefined) visit(key, { tenant });
      else for (const word of label.words) visit(key, { tenant, [label.name]: word });
    }
  };
  const begin = (tenant: string): void => eachSeries(tenant, (key, labels) => counters[key].inc(labels, 0));
  begin(OTHER_TENANTS);
  const labelOf = createTenantLabels({
    most,
    onSeated: begin,
    onLeft: (tenant) => eachSeries(tenant, (key, labels) => counters[key].remove(labels)),
  });
  return recordOf(keys, (key) => (tenantId, word) => {
    const tenant = labelOf(tenantId);
    const { label } = wanted[key];
    counters[key].inc(
      label === undefined || word === undefined ? { tenant } : { tenant, [label.name]: word },
    );
  });
}

function recordOf<Key extends string, T>(keys: readonly Key[], make: (key: Key) => T): Record<Key, T> {
  return Object.fromEntries(keys.map((key) => [key, make(key)])) as Record<Key, T>;
}
