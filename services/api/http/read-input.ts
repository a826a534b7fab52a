import { isUtf8 } from 'node:buffer';
import type { FastifySchemaCompiler } from 'fastify';
import { z } from 'zod';
import { AppError, notFound, validationFailed, type ErrorDetail } from '#core/domain/app-error.ts';
import { rememberWarnings } from './request-warnings.ts';
import { resolveAliases, caseAliasesOf } from './case-aliases.ts';

const DEPTH_MAX = 32;
/** Of all kinds and levels: what a body costs goes with them, and a megabyte has room for half a million. */
export const VALUES_MAX = 30_000;
/** A small body can hold faults without number; the answer to it stays small too. */
const DETAILS_MAX = 100;
/** Only an escape can bring NUL or half a surrogate pair into a JSON text that is valid UTF-8. */
const SUSPECT_ESCAPE = /\\u(?:0000|[dD][89a-fA-F])/;

/**
 * Reads a JSON body.
 * @returns undefined for an empty one.
 * @throws AppError for bytes that are no UTF-8, no JSON, nested too deeply, of too many values or no Unicode text.
 */
export function readJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw new AppError('malformed_json');
  const text = bytes.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new AppError('malformed_json');
  }
  new Inspection(SUSPECT_ESCAPE.test(text)).visit(value);
  return value;
}

/** Looks at every value once. Where a value lies is only put into words when it is at fault. */
class Inspection {
  readonly #inspectTexts: boolean;
  readonly #trail: (string | number)[] = [];
  #values = 0;

  /** @param inspectTexts False where the texts are known to be fine. */
  constructor(inspectTexts: boolean) {
    this.#inspectTexts = inspectTexts;
  }

  visit(value: unknown): void {
    this.#values += 1;
    if (this.#values > VALUES_MAX) throw tooManyValues();
    if (typeof value === 'string') {
      if (this.#inspectTexts) assertText(value, this.#path());
      return;
    }
    if (typeof value !== 'object' || value === null) return;
    if (this.#trail.length >= DEPTH_MAX) throw tooMuch('depth', `Must have at most ${DEPTH_MAX} levels`);
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i += 1) this.#visitAt(i, value[i]);
      return;
    }
    for (const name of Object.keys(value)) {
      if (this.#inspectTexts) assertText(name, this.#path());
      // Copying an object would lose it without a word, or worse.
      if (name === '__proto__') {
        const message = 'Must not have a field named __proto__';
        throw validationFailed({ field: this.#path(), rule: 'name', message });
      }
      this.#visitAt(name, (value as Record<string, unknown>)[name]);
    }
  }

  #visitAt(place: string | number, value: unknown): void {
    this.#trail.push(place);
    this.visit(value);
    this.#trail.pop();
  }

  #path(): string {
    return this.#trail.length === 0 ? 'body' : this.#trail.join('.');
  }
}

export function tooManyValues(): AppError {
  return tooMuch('size', `Must have at most ${VALUES_MAX} values`);
}

function tooMuch(rule: string, message: string): AppError {
  return validationFailed({ field: 'body', rule, message });
}

function assertText(text: string, field: string): void {
  if (isText(text)) return;
  const name = isText(field) ? field : 'body';
  throw validationFailed({ field: name, rule: 'characters', message: 'Must be Unicode text without NUL' });
}

/** False for what Postgres and UTF-8 cannot hold. */
export function isText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

/** Of bodies that have been read, what was sent: known fields alone, in one spelling. */
const sentAs = new WeakMap<object, unknown>();

/**
 * What was sent, where a value is what was read of it: without what this release has for fields that were not sent, and
 * without what it makes of those that were. Two requests are compared by it, which may be answered by two releases.
 */
export function asSent(read: unknown): unknown {
  const isKnown = typeof read === 'object' && read !== null && sentAs.has(read);
  return isKnown ? sentAs.get(read) : read;
}

type HttpPart = 'params' | 'querystring' | 'body' | 'headers';

/** Makes the reader of one part of a route's requests: spelling, types, rules, and errors that name fields. */
export const inputCompiler: FastifySchemaCompiler<z.ZodType> = ({ schema, httpPart, method }) => {
  const part = httpPart as HttpPart;
  const isQuery = part === 'querystring';
  const aliases = caseAliasesOf(schema);
  const options = {
    // A change clears what it names as null; everywhere else serializers write null for what is not there.
    nulls: part === 'body' && method === 'PATCH' ? 'kept' : 'absent',
    kind: isQuery ? 'query parameter' : 'field',
  } as const;
  const kinds = isQuery ? queryKinds(schema) : NO_KINDS;
  return (sent: unknown) => {
    try {
      if (part === 'body') assertObject(sent);
      const read = resolveAliases(aliases, isQuery ? readQuery(sent, kinds) : (sent ?? {}), options);
      const parsed = schema.safeParse(read.value);
      if (parsed.success) {
        if (read.warnings.length > 0) rememberWarnings(parsed.data as object, read.warnings);
        if (part === 'body' && typeof parsed.data === 'object' && parsed.data !== null)
          sentAs.set(parsed.data, read.value);
        return { value: parsed.data };
      }
      // A path that breaks the form of its ids names nothing.
      return { error: part === 'params' ? notFound() : rejection(parsed.error.issues, read.value) };
    } catch (error) {
      return { error: error as Error };
    }
  };
};

/** No body at all is one without fields; so is null. */
function assertObject(body: unknown): void {
  if (body === undefined || body === null || (typeof body === 'object' && !Array.isArray(body))) return;
  const message = 'Request body must be a JSON object';
  throw new AppError('validation_failed', { message, details: [{ field: 'body', rule: 'type', message }] });
}

/** Which parameters hold something else than text, by their names in lower case. */
type QueryKinds = ReadonlyMap<string, 'number' | 'boolean' | 'map'>;
const NO_KINDS: QueryKinds = new Map();

/** `name.key` and `name[key]`, as people and as generated clients write one pair of a map. */
const PAIR = /^([A-Za-z_]+)(?:\.(.*)|\[(.*)\])$/s;

/** Query values arrive as text; those of other kinds are read before the rules look at them. */
function readQuery(sent: unknown, kinds: QueryKinds): unknown {
  const query: Record<string, unknown> = {};
  const kindOf = (name: string) => kinds.get(name.replaceAll('_', '').toLowerCase());
  for (const [name, value] of Object.entries(sent as Record<string, unknown>)) {
    assertText(name, 'query');
    for (const text of [value].flat()) assertText(String(text), name);
    const pair = PAIR.exec(name);
    const map = pair?.[1];
    if (pair !== null && map !== undefined && kindOf(map) === 'map') {
      const pairs = (Object.hasOwn(query, map) ? query[map] : {}) as Record<string, unknown>;
      query[map] = { ...pairs, [pair[2] ?? pair[3] ?? '']: value };
    } else query[name] = readValue(value, kindOf(name));
  }
  return query;
}

function readValue(value: unknown, kind: 'number' | 'boolean' | 'map' | undefined): unknown {
  if (typeof value !== 'string') return value;
  if (kind === 'number' && /^-?\d{1,15}$/.test(value)) return Number(value);
  if (kind === 'boolean' && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}

function queryKinds(schema: z.ZodType): QueryKinds {
  const shape = schema instanceof z.ZodObject ? (schema.shape as Record<string, z.ZodType>) : {};
  return new Map(
    Object.entries(shape).flatMap(([name, field]) => {
      const kind = kindOf(field);
      return kind === undefined ? [] : [[name.toLowerCase(), kind] as const];
    }),
  );
}

function kindOf(schema: z.ZodType): 'number' | 'boolean' | 'map' | undefined {
  if (schema instanceof z.ZodNumber) return 'number';
  if (schema instanceof z.ZodBoolean) return 'boolean';
  if (schema instanceof z.ZodRecord) return 'map';
  const { innerType } = schema.def as { innerType?: z.ZodType };
  return innerType && kindOf(innerType);
}

const RULES: Readonly<Record<string, string>> = {
  invalid_type: 'type',
  too_small: 'min',
  too_big: 'max',
  invalid_format: 'format',
  invalid_value: 'enum',
  invalid_union: 'type',
};

/** Which rules a schema's issues say are broken. */
export function brokenRules(issues: readonly z.core.$ZodIssue[], sent: unknown): ErrorDetail[] {
  return issues.map((issue): ErrorDetail => {
    const field = issue.path.length === 0 ? 'body' : issue.path.map(String).join('.');
    const rule = ruleOf(issue, sent);
    if (rule !== 'required' || issue.code === 'custom') return { field, rule, message: issue.message };
    const message = `Field '${field}' ${isCleared(issue, sent) ? 'cannot be null' : 'is required'}`;
    return { field, rule, message };
  });
}

/** The error for a schema's issues: `missing_field` as soon as one of them is a field that is not there. */
function rejection(issues: readonly z.core.$ZodIssue[], sent: unknown): AppError {
  const details = brokenRules(issues, sent);
  const missing = details.find(({ rule }) => rule === 'required')?.message;
  const shown = details.slice(0, DETAILS_MAX);
  if (missing !== undefined) return new AppError('missing_field', { message: missing, details: shown });
  const isUrlBlocked = details.every(({ rule }) => rule === 'url_blocked');
  return new AppError(isUrlBlocked ? 'url_blocked' : 'validation_failed', { details: shown });
}

function ruleOf(issue: z.core.$ZodIssue, sent: unknown): string {
  if (issue.code === 'custom') return (issue.params?.['rule'] as string | undefined) ?? 'invalid';
  if (issue.code === 'invalid_type' && issue.expected === 'never') return 'unsupported';
  if (isCleared(issue, sent)) return 'required';
  if (issue.path.length > 0 && valueAt(sent, issue.path) === undefined) return 'required';
  if (issue.code === 'invalid_union' && issue.path.at(-1) === 'channel') return 'enum';
  return RULES[issue.code] ?? 'invalid';
}

/** A null that comes to the rules would clear what there has to be. */
function isCleared({ path }: z.core.$ZodIssue, sent: unknown): boolean {
  return path.length === 1 && valueAt(sent, path) === null;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, name) => (inner as Record<PropertyKey, unknown> | null | undefined)?.[name],
    value,
  );
}
