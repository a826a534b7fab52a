import { parser } from '@prometheus-io/lezer-promql';

/** One `metric{label="value"}` of a query. */
export type Selector = { readonly metric: string; readonly matchers: readonly Matcher[] };
export type Matcher = {
  readonly label: string;
  readonly operator: '=' | '!=' | '=~' | '!~';
  readonly value: string;
};

/** The names that a query uses. */
export type QueryFacts = {
  readonly selectors: readonly Selector[];
  /** Labels of `by`, `without`, `on`, `ignoring` and `group_left`. */
  readonly groupings: readonly string[];
};

/** Replaces Grafana's own variables, which PromQL does not support. */
export function withoutMacros(query: string, interval = '5m'): string {
  return query.replaceAll('$__rate_interval', interval).replaceAll('$__range', interval);
}

/** Returns the facts about a query. @throws when the query does not parse. */
export function queryFacts(query: string): QueryFacts {
  const text = (node: { readonly from: number; readonly to: number }): string =>
    query.slice(node.from, node.to);
  const selectors: { metric: string; matchers: Matcher[] }[] = [];
  const groupings: string[] = [];
  parser.parse(query).iterate({
    enter({ type, node }) {
      if (type.isError) throw new Error(`not PromQL at ${node.from}: ${query}`);
      switch (type.name) {
        case 'VectorSelector': {
          const name = node.getChild('Identifier');
          selectors.push({ metric: name === null ? '' : text(name), matchers: [] });
          break;
        }
        case 'UnquotedLabelMatcher': {
          const [label, operator, value] = ['LabelName', 'MatchOp', 'StringLiteral'].map((part) => {
            const child = node.getChild(part);
            return child === null ? '' : text(child);
          });
          selectors.at(-1)?.matchers.push({
            label: label ?? '',
            operator: operator as Matcher['operator'],
            value: unquoted(value ?? ''),
          });
          break;
        }
        case 'GroupingLabels':
          groupings.push(...node.getChildren('LabelName').map(text));
          break;
      }
    },
  });
  return { selectors, groupings };
}

/** PromQL's strings use Go's escapes, which are the same as JSON's for the strings used here. */
function unquoted(literal: string): string {
  return literal.startsWith('"') ? (JSON.parse(literal) as string) : literal.slice(1, -1);
}
