import type { Registry } from 'prom-client';
import { queryFacts, withoutMacros, type Matcher } from './promql.ts';

/** A series' labels, and the values that are known of them before anything happens. */
export type CatalogMetric = ReadonlyMap<string, ReadonlySet<string>>;
/** By the names that queries use: a histogram is three. */
export type MetricCatalog = ReadonlyMap<string, CatalogMetric>;

/** Labels that Prometheus adds to whatever it scrapes. */
const SCRAPE_LABELS = ['namespace', 'job', 'instance', 'pod'];

type PromMetric = { readonly name: string; readonly type: unknown; readonly labelNames?: readonly string[] };
type PromValues = {
  readonly name: string;
  readonly values: readonly { readonly labels: Readonly<Record<string, string | number>> }[];
};

/** What the code's own registries expose. */
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

/** What is wrong with a query: metrics, labels or values that nothing exposes. */
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
  // Filled in by Grafana, or known only once something has happened.
  if (value.includes('$') || known.size === 0) return [];
  const isMatched = (pattern: string): boolean => {
    const whole = operator.endsWith('~') ? new RegExp(`^(?:${pattern})$`) : undefined;
    return [...known].some((one) => whole?.test(one) ?? one === pattern);
  };
  // Each word on its own: a list of which only one word is misspelt still matches something.
  const words = /^[a-z0-9_|]+$/i.test(value) ? value.split('|') : [value];
  const isExcluding = operator.startsWith('!');
  return words
    .filter((word) => !isMatched(word) && !(isExcluding && /[.?*+]/.test(word)))
    .map((word) => `${metric} is never seen with ${label}${operator}"${word}"`);
}
