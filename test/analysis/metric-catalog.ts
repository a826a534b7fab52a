import type { Registry } from 'prom-client';
import { queryFacts, withoutMacros, type Matcher } from './promql.ts';

/** A metric's labels, with the values that exist before anything happens. */
export type CatalogMetric = ReadonlyMap<string, ReadonlySet<string>>;
/** Metrics by the names in queries: a histogram has three. */
export type MetricCatalog = ReadonlyMap<string, CatalogMetric>;

/** Labels that Prometheus adds to everything that it scrapes. */
const SCRAPE_LABELS = ['namespace', 'job', 'instance', 'pod'];

type PromMetric = { readonly name: string; readonly type: unknown; readonly labelNames?: readonly string[] };
type PromValues = {
  readonly name: string;
  readonly values: readonly { readonly labels: Readonly<Record<string, string | number>> }[];
};

/** Returns the metrics of the code's own registries. */
export async function catalogOf(registries: readonly Registry[]): Promise<MetricCatalog> {
  const catalog = new Map<string, Map<string, Set<string>>>();
  for (const registry of registries) {
    const metrics = registry.getMetricsAsArray() as unknown as readonly PromMetric[];
    const values = (await registry.getMetricsAsJSON()) as unknown as readonly PromValues[];
    const valuesOf = new Map(values.map((metric) => [metric.name, metric.values]));
    for (const { name, type, labelNames = [] } of metrics) {
      const isHistogram = type === 'histogram';
      const series = isHistogram ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];
      for (const one of series) {
        const labels = catalog.get(one) ?? new Map<string, Set<string>>();
        catalog.set(one, labels);
        for (const label of [...labelNames, ...(one.endsWith('_bucket') && isHistogram ? ['le'] : [])]) {
          const known = labels.get(label) ?? new Set<string>();
          labels.set(label, known);
          for (const value of valuesOf.get(name) ?? []) {
            if (value.labels[label] !== undefined) known.add(String(value.labels[label]));
          }
        }
      }
    }
  }
  return catalog;
}

/** Returns a query's errors: metrics, labels or values that nothing exposes. */
export function queryFaults(query: string, catalog: MetricCatalog): string[] {
  const { selectors, groupings } = queryFacts(withoutMacros(query));
  const faults = selectors.flatMap(({ metric, matchers }) => {
    const labels = catalog.get(metric);
    if (labels === undefined)
      return [`nothing exposes ${metric === '' ? 'a metric without a name' : metric}`];
    return matchers.flatMap((matcher) => matcherFaults(metric, matcher, labels));
  });
  const possible = new Set([
    ...SCRAPE_LABELS,
    ...selectors.flatMap(({ metric }) => [...(catalog.get(metric)?.keys() ?? [])]),
  ]);
  return [
    ...faults,
    ...groupings
      .filter((label) => !possible.has(label))
      .map((label) => `no series here has a label ${label}`),
  ];
}

function matcherFaults(metric: string, { label, operator, value }: Matcher, labels: CatalogMetric): string[] {
  if (SCRAPE_LABELS.includes(label)) return [];
  const known = labels.get(label);
  if (known === undefined) return [`${metric} has no label ${label}`];
  // Grafana fills in the value, or the values are known only after something has happened.
  if (value.includes('$') || known.size === 0) return [];
  const isMatched = (pattern: string): boolean => {
    const whole = operator.endsWith('~') ? new RegExp(`^(?:${pattern})$`) : undefined;
    return [...known].some((one) => whole?.test(one) ?? one === pattern);
  };
  // Each alternative is checked alone: a list with one misspelt word would still match something.
  const words = /^[a-z0-9_|]+$/i.test(value) ? value.split('|') : [value];
  const isExcluding = operator.startsWith('!');
  return words
    .filter((word) => !isMatched(word) && !(isExcluding && /[.?*+]/.test(word)))
    .map((word) => `${metric} is never seen with ${label}${operator}"${word}"`);
}
