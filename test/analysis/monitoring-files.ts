import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parse } from 'yaml';
import { projectRoot } from '../support/command.ts';

export type Rule = {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
};
export type Alert = Rule & { readonly alert: string };

type AlertCase = {
  readonly alertname: string;
  readonly exp_alerts?: readonly { readonly exp_labels: Readonly<Record<string, string>> }[];
};

export type Panel = {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly datasource?: { readonly uid: string };
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly { readonly refId: string; readonly expr: string }[];
};
export type Variable = {
  readonly name: string;
  readonly type: string;
  readonly query: string | { readonly query: string };
  readonly includeAll?: boolean;
  readonly allValue?: string;
};
export type Dashboard = {
  readonly file: string;
  readonly uid: string;
  readonly title: string;
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly Variable[] };
};

export const RULE_FOLDER = 'charts/despatch/rules';
const RUNBOOK_FOLDER = 'deploy/runbooks';

const filesOf = (folder: string): { readonly file: string; readonly text: string }[] =>
  readdirSync(join(projectRoot, folder))
    .toSorted()
    .map((file) => ({ file, text: readFileSync(join(projectRoot, folder, file), 'utf8') }));

export function readRules(): Rule[] {
  return filesOf(RULE_FOLDER).flatMap(({ text }) =>
    (parse(text) as { groups: { rules: Rule[] }[] }).groups.flatMap(({ rules }) => rules),
  );
}

export function alertsOf(rules: readonly Rule[]): Alert[] {
  return rules.filter((rule): rule is Alert => rule.alert !== undefined);
}

/** Reads the alerts that `promtool test rules` expects. */
export function readAlertCases(): AlertCase[] {
  type Tests = { tests: { alert_rule_test?: AlertCase[] }[] };
  return filesOf('test/rules').flatMap(({ text }) =>
    (parse(text) as Tests).tests.flatMap(({ alert_rule_test: cases = [] }) => cases),
  );
}

export function readDashboards(): Dashboard[] {
  return filesOf('charts/despatch/dashboards').map(({ file, text }) => ({
    ...(JSON.parse(text) as Omit<Dashboard, 'file'>),
    file,
  }));
}

/** Reads the runbooks by their alerts. */
export function readRunbooks(): Map<string, string> {
  return new Map(filesOf(RUNBOOK_FOLDER).map(({ file, text }) => [basename(file, '.md'), text]));
}

/** Returns the queries of a runbook, which occupy a line each. */
export function runbookQueries(text: string): string[] {
  return [...text.matchAll(/^```promql\n(.*?)^```/gms)].flatMap(([, block = '']) =>
    block.split('\n').filter((line) => line.trim() !== ''),
  );
}

/** Returns the metric, and the label if there is one, whose values a variable lists. */
export function variableQuery({ query }: Variable): { selector: string; label: string } | undefined {
  const found = /^label_values\((.+), *([a-z_]+)\)$/.exec(typeof query === 'string' ? query : query.query);
  return found === null ? undefined : { selector: found[1] ?? '', label: found[2] ?? '' };
}

/** Reads the string literals of the services' code, which include the log messages. */
export function readLiterals(): Set<string> {
  return foundIn('services', /['`]([A-Z][^'`\n]*)['`]/g);
}

/** Reads the names of the tasks that a worker repeats, and of the writes whose failures it counts like those of tasks. */
export function readTasks(): Set<string> {
  const called = foundIn('services/worker', /\btaskFailed\('([a-z_]+)',/g);
  return called.union(foundIn('services/worker', /\b([a-z_]+): \{\s*everyMs:/g));
}

/** Returns what the pattern's group matches in the code of a folder. */
function foundIn(folder: string, pattern: RegExp): Set<string> {
  const found = new Set<string>();
  for (const file of readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.endsWith('.test.ts')) continue;
    const code = readFileSync(join(projectRoot, folder, file), 'utf8');
    for (const [, part = ''] of code.matchAll(pattern)) found.add(part);
  }
  return found;
}
