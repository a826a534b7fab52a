import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { Secret } from '#core/domain/storage/secret.ts';

/** A configuration variable: its rule and its notes for the reference table. */
export type Variable<T = unknown> = z.ZodType<T>;

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

/** What the reference table shows about a variable. */
export type VariableDescription = {
  readonly description: string;
  readonly type: string;
  /** As Markdown. */
  readonly default?: string;
  readonly isOptional: boolean;
  /** Whether the variable is a secret, which may also come from the file that `<NAME>_FILE` names. */
  readonly secret: boolean;
};

type Notes = {
  description: string;
  type: string;
  default?: string;
  secret?: boolean;
};

export function describeVariable(variable: Variable): VariableDescription {
  const notes = (variable.meta() ?? {}) as Partial<Notes>;
  return {
    description: notes.description ?? '',
    type: notes.type ?? 'text',
    ...(notes.default === undefined ? {} : { default: `\`${notes.default}\`` }),
    isOptional: variable.safeParse(undefined).success,
    secret: notes.secret ?? false,
  };
}

export type TextOptions = {
  readonly pattern?: RegExp;
  readonly rule?: string;
  readonly lengthMax?: number;
  readonly default?: string;
  readonly type?: string;
};

/** Returns a variable for text, optionally with a pattern; `rule` describes the pattern in words. */
export function text(description: string, options: TextOptions = {}): z.ZodType<string> {
  const { pattern = /^[^\r\n\0]+$/, rule = 'must be one line of text', lengthMax = 4096 } = options;
  const schema = z.string().max(lengthMax, `must have at most ${lengthMax} characters`).regex(pattern, rule);
  const notes: Notes = {
    description,
    type: options.type ?? 'text',
  };
  return withDefault(schema, notes, options.default);
}

/**
 * Returns a variable for a secret, given directly or by the file that `<NAME>_FILE` names (surrounding white space is removed).
 */
export function secretText(
  description: string,
  options: { readonly lengthMin?: number } = {},
): z.ZodType<Secret> {
  const { lengthMin = 1 } = options;
  return z
    .string()
    .min(lengthMin, `must have at least ${lengthMin} characters`)
    .transform((value) => new Secret(value))
    .meta({ description, type: 'secret', secret: true } satisfies Notes);
}

/** Parameters of a connection string that the driver reads; it would send all others to the server as settings of the session. */
const POSTGRES_PARAMETERS = ['sslmode', 'ssl', 'sslnegotiation', 'target_session_attrs'];

/**
 * Returns a variable for a connection string of Postgres. Parameters are few: a setting of the session there would override one
 * that the services rely on, such as its time limit, or would be refused by the server.
 */
export function postgresUrl(description: string): z.ZodType<Secret> {
  const protocols = ['postgres:', 'postgresql:'];
  return z
    .string()
    .refine((value) => isUrl(ofFirstHost(value), protocols) && HOSTS.test(value), {
      error: `${urlRule(protocols)}, with one host or several, as host:port,host:port`,
      abort: true,
    })
    .refine(
      (value) => hasDecodableLogin(ofFirstHost(value)),
      'must have % in its user or password only before two hexadecimal digits (%25 for a %)',
    )
    .refine(
      (value) =>
        new URL(ofFirstHost(value)).searchParams.keys().every((name) => POSTGRES_PARAMETERS.includes(name)),
      `must have no parameters but ${POSTGRES_PARAMETERS.join(', ')}`,
    )
    .transform((value) => new Secret(value))
    .meta({ description, type: 'secret URL', secret: true } satisfies Notes);
}

/** Returns a variable for a URL of one of the protocols (`https:`), without credentials; trailing slashes are removed. */
export function url(description: string, protocols: readonly string[]): z.ZodType<string> {
  return z
    .string()
    .refine(
      (value) => isUrl(value, protocols) && !hasCredentials(value),
      `${urlRule(protocols)}, without credentials`,
    )
    .transform((value) => value.replace(/\/+$/, ''))
    .meta({ description, type: 'URL' } satisfies Notes);
}

/** Returns a variable for URLs separated by commas. */
export function urlList(
  description: string,
  protocols: readonly string[],
  fallback?: string,
): z.ZodType<readonly string[]> {
  const schema = z
    .string()
    .transform(splitList)
    .refine(
      (values) =>
        values.length > 0 && values.every((value) => isUrl(value, protocols) && !hasCredentials(value)),
      `must be a list of URLs; each ${urlRule(protocols)}, without credentials`,
    );
  return withDefault(schema, { description, type: 'URLs, separated by commas' }, fallback);
}

/** Returns a variable for words separated by commas; white space around them is dropped. Absent: an empty list. */
export function list(
  description: string,
  options: { readonly item?: (value: string) => boolean; readonly rule?: string } = {},
): z.ZodType<readonly string[]> {
  const { item = () => true, rule = 'has an item of the wrong form' } = options;
  const schema = z
    .string()
    .transform(splitList)
    .refine((values) => values.every(item), rule);
  return withDefault(schema, { description, type: 'list, separated by commas' }, '');
}

/** Returns a variable for an integer within bounds. Put the unit into the variable's name. */
export function whole(
  description: string,
  bounds: { readonly min: number; readonly max: number; readonly default?: number },
): z.ZodType<number> {
  const rule = `must be a whole number from ${bounds.min} to ${bounds.max}`;
  const schema = z
    .string()
    .refine(
      (value) => /^-?\d{1,15}$/.test(value) && Number(value) >= bounds.min && Number(value) <= bounds.max,
      rule,
    )
    .transform(Number);
  const type = `whole number, ${bounds.min} to ${bounds.max}`;
  return withDefault(schema, { description, type }, bounds.default?.toString());
}

/** Returns a variable for a number from 0 to 1. */
export function ratio(description: string, fallback: number): z.ZodType<number> {
  const schema = z
    .string()
    .refine((value) => /^(?:0|1|0?\.\d+|1\.0+)$/.test(value), 'must be a number from 0 to 1')
    .transform(Number);
  return withDefault(schema, { description, type: 'number, 0 to 1' }, String(fallback));
}

/** Returns a variable for `true` or `false`. */
export function flag(description: string, fallback: boolean): z.ZodType<boolean> {
  const schema = z.enum(['true', 'false'], 'must be true or false').transform((value) => value === 'true');
  return withDefault(schema, { description, type: '`true` or `false`' }, String(fallback));
}

/** Returns a variable for one of several words. */
export function oneOf<const Words extends readonly [string, ...string[]]>(
  description: string,
  words: Words,
  fallback?: Words[number],
): z.ZodType<Words[number]> {
  const schema = z.enum(words, `must be one of ${words.join(', ')}`);
  return withDefault<Words[number]>(
    schema,
    { description, type: words.map((word) => `\`${word}\``).join(', ') },
    fallback,
  );
}

/** Returns the same variable, allowed to be absent. */
export function optional<T>(variable: z.ZodType<T>): z.ZodType<T | undefined> {
  return variable.optional().meta(variable.meta() ?? {});
}

function withDefault<T>(
  schema: z.ZodType<T, string>,
  notes: Notes,
  fallback: string | undefined,
): z.ZodType<T> {
  if (fallback === undefined) return schema.meta(notes);
  return schema.prefault(fallback).meta({ ...notes, default: fallback });
}

function splitList(value: string): string[] {
  return value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

function isUrl(value: string, protocols: readonly string[]): boolean {
  return URL.canParse(value) && protocols.includes(new URL(value).protocol) && new URL(value).hostname !== '';
}

/** A list of hosts with or without ports, as libpq and the driver read it: `h1:5432,h2:5433`. */
const HOSTS =
  /^[a-z]+:\/\/(?:[^@/?#]*@)?(?:[^,/?#@:[\]]+|\[[0-9a-f:.]+\])(?::\d+)?(?:,(?:[^,/?#@:[\]]+|\[[0-9a-f:.]+\])(?::\d+)?)*(?:[/?#]|$)/i;

/** Returns the URL with its first host alone: a list is no URL to `URL`. */
function ofFirstHost(value: string): string {
  return value.replace(/^([a-z]+:\/\/(?:[^@/?#]*@)?[^,/?#]+),[^/?#]*/i, '$1');
}

function hasDecodableLogin(value: string): boolean {
  const { username, password } = new URL(value);
  try {
    decodeURIComponent(username);
    decodeURIComponent(password);
    return true;
  } catch {
    return false;
  }
}

function hasCredentials(value: string): boolean {
  const { username, password } = new URL(value);
  return username !== '' || password !== '';
}

function urlRule(protocols: readonly string[]): string {
  return `must be a URL that begins with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`;
}
