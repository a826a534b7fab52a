import type { Environment } from './config.ts';
import { describeVariable, type Variable, type VariableDescription } from './describe-variable.ts';

export type DeploymentVariables = { readonly deployment: string; readonly environment: Environment };

type Row = VariableDescription & {
  readonly variable: string;
  readonly deployments: readonly string[];
  /** The deployments by their description of the variable. */
  readonly readers: ReadonlyMap<string, readonly string[]>;
  /** The deployments by their default. */
  readonly defaults: ReadonlyMap<string, readonly string[]>;
};

/**
 * Returns the reference of all variables as Markdown: one table per group, each variable once, with the deployments that read it.
 */
export function configTable(deployments: readonly DeploymentVariables[]): string {
  const groups = new Map<string, Map<string, Row>>();
  const seen = new Map<string, string>();
  for (const { deployment, environment } of deployments) {
    for (const { title, shape } of Object.values(environment)) {
      for (const [variable, rule] of Object.entries(shape as Record<string, Variable>)) {
        // A variable that several groups read is listed in the first of them.
        const home = seen.get(variable) ?? title;
        seen.set(variable, home);
        const rows = groups.get(home) ?? new Map<string, Row>();
        groups.set(home, rows);
        rows.set(variable, withReader(rows.get(variable), { variable, deployment, rule }));
      }
    }
  }
  return [
    '# Configuration',
    '',
    'Environment variables, read once at start. All faults are reported together. An empty variable counts as absent.',
    'A variable marked † may be given as a file instead: its name followed by `_FILE` holds the path.',
    '',
    'Written by `npm run gen` from the schemas of each deployment; do not edit.',
    ...[...groups].flatMap(([title, rows]) => ['', `## ${title}`, '', ...tableOf([...rows.values()])]),
    '',
  ].join('\n');
}

/** Returns the row of a variable with one more deployment. The first deployment decides about everything but description and default. */
function withReader(
  row: Row | undefined,
  { variable, deployment, rule }: { variable: string; deployment: string; rule: Variable },
): Row {
  const described = describeVariable(rule);
  const known = row ?? { ...described, variable, deployments: [], readers: NONE, defaults: NONE };
  if (known.deployments.includes(deployment)) return known;
  return {
    ...known,
    deployments: [...known.deployments, deployment],
    readers: withDeployment(known.readers, described.description, deployment),
    defaults: withDeployment(known.defaults, defaultOf(described), deployment),
  };
}

const NONE: Row['readers'] = new Map();

function withDeployment(known: Row['readers'], text: string, deployment: string): Row['readers'] {
  return new Map([...known, [text, [...(known.get(text) ?? []), deployment]]]);
}

/** Returns what all deployments have in common, or what each of them has. */
function byDeployment(texts: Row['readers'], separator: string): string {
  if (texts.size === 1) return [...texts.keys()].join('');
  return [...texts].map(([text, deployments]) => `${deployments.join(', ')}: ${text}`).join(separator);
}

function tableOf(rows: readonly Row[]): string[] {
  return [
    '| variable | read by | type | default | description |',
    '|---|---|---|---|---|',
    ...rows.map((row) =>
      [
        `| \`${row.variable}\`${row.secret ? ' †' : ''}`,
        row.deployments.join(', '),
        row.type,
        byDeployment(row.defaults, '; '),
        `${byDeployment(row.readers, ' ')} |`,
      ]
        .map((cell, position) => (position === 0 || position === 4 ? cell : escapeCell(cell)))
        .join(' | '),
    ),
  ];
}

function defaultOf(row: VariableDescription): string {
  if (row.default !== undefined) return row.default === '``' ? 'empty' : row.default;
  return row.isOptional ? '–' : '**required**';
}

function escapeCell(cell: string): string {
  return cell.replaceAll('|', '\\|');
}
