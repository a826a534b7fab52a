import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { Secret } from '#core/domain/storage/secret.ts';
import { describeVariable, type Variable, type VariableDescription } from './describe-variable.ts';

type Shape = Readonly<Record<string, Variable>>;
type Values<S extends Shape> = { readonly [Name in keyof S]: z.output<S[Name]> };

export type BuildContext = {
  /** Reports a violation of a rule that spans several variables. Faults are collected; the build continues. */
  readonly fault: (variable: string, rule: string) => void;
  /** Returns the path given by `<NAME>_FILE`, for adapters that read a rotating secret again. */
  readonly fileOf: (variable: string) => string | undefined;
};

/** Variables that are read together, and the function that builds their consumer's typed value. */
export type EnvGroup<S extends Shape = Shape, Out = unknown> = {
  readonly title: string;
  readonly shape: S;
  readonly build: (values: Values<S>, context: BuildContext) => Out;
};

// oxlint-disable-next-line typescript/no-explicit-any -- a group's values are only known to the group itself
export type Environment = Readonly<Record<string, EnvGroup<any>>>;
export type ConfigOf<E extends Environment> = { readonly [Name in keyof E]: ReturnType<E[Name]['build']> };

export type ConfigurationFault = { readonly variable: string; readonly rule: string };

/** Lists every faulty variable with the violated rule; never a value. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError';
  readonly faults: readonly ConfigurationFault[];

  constructor(faults: readonly ConfigurationFault[]) {
    const lines = faults.map(({ variable, rule }) => `  ${variable}: ${rule}`);
    super(`The configuration has ${faults.length} fault(s):\n${lines.join('\n')}`);
    this.faults = faults;
  }
}

export function defineEnvGroup<S extends Shape, Out>(group: EnvGroup<S, Out>): EnvGroup<S, Out> {
  return group;
}

/**
 * Reads a deployment's variables once. An empty variable counts as absent, because charts render unset values as empty. The
 * result is deeply frozen.
 * @throws ConfigurationError with all faults together.
 */
export function parseEnvironment<E extends Environment>(environment: E, env: NodeJS.ProcessEnv): ConfigOf<E> {
  const faults = new Map<string, string>();
  const fault = (variable: string, rule: string): void => {
    if (!faults.has(variable)) faults.set(variable, rule);
  };
  const config: Record<string, unknown> = {};
  for (const [name, group] of Object.entries(environment)) {
    const files = new Map<string, string>();
    const raw = Object.fromEntries(
      Object.entries(group.shape as Shape).map(([variable, rule]) => [
        variable,
        readVariable(variable, describeVariable(rule), env, files, fault),
      ]),
    );
    const parsed = z.object(group.shape as Shape).safeParse(raw);
    if (!parsed.success) {
      for (const issue of parsed.error.issues) fault(String(issue.path[0]), ruleOf(issue));
      continue;
    }
    config[name] = group.build(parsed.data, { fault, fileOf: (variable) => files.get(variable) });
  }
  if (faults.size > 0) {
    throw new ConfigurationError([...faults].map(([variable, rule]) => ({ variable, rule })));
  }
  return deepFreeze(config) as ConfigOf<E>;
}

function readVariable(
  variable: string,
  description: VariableDescription,
  env: NodeJS.ProcessEnv,
  files: Map<string, string>,
  fault: (variable: string, rule: string) => void,
): string | undefined {
  const value = env[variable] === '' ? undefined : env[variable];
  const file = description.secret ? env[`${variable}_FILE`] : undefined;
  if (file === undefined || file === '') return value;
  if (value !== undefined) fault(variable, `is set together with ${variable}_FILE; set one of them`);
  files.set(variable, file);
  try {
    const text = readFileSync(file, 'utf8').trim();
    if (text === '') fault(`${variable}_FILE`, 'names an empty file');
    return text === '' ? undefined : text;
  } catch (error) {
    fault(`${variable}_FILE`, `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`);
    return undefined;
  }
}

function ruleOf(issue: z.core.$ZodIssue): string {
  return issue.code === 'invalid_type' && issue.message.endsWith('received undefined')
    ? 'is required'
    : issue.message;
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || value instanceof Secret || Object.isFrozen(value))
    return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
