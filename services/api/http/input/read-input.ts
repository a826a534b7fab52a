import { isUtf8 } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';
import type { FastifySchemaCompiler } from 'fastify';
import { z } from 'zod';
import { AppError, notFound, validationFailed, type ErrorDetail } from '#core/domain/fault/app-error.ts';
import { ruleText } from '#core/domain/text/rule-text.ts';
import { shortName } from '#core/domain/text/short-name.ts';
import { rememberInput, type ParsedInput } from './parsed-input.ts';
import { caseAliasesOf, conflictAt, NO_NAMES, resolveAliases, type FieldNames } from './case-aliases.ts';
import { countNames, repeatedName } from './repeated-name.ts';
import { partsOf, shapeOf } from './schema-parts.ts';
import { countBoundsOf, countFaults } from './count-bounds.ts';

const DEPTH_MAX = 32;
/** Counts values of all kinds and levels: the cost of a body grows with them, and a megabyte has room for half a million. */
export const VALUES_MAX = 30_000;
/** A small body can contain very many faults; this keeps the answer small. */
export const DETAILS_MAX = 100;
/** In JSON text of valid UTF-8 only an escape can produce NUL or half a surrogate pair. */
const SUSPECT_ESCAPE = /\\u(?:0000|[dD][89a-fA-F])/;

/**
 * Reads a JSON body.
 * @returns undefined for an empty body.
 * @throws AppError for bytes that are not UTF-8 or not JSON, too deep nesting, too many values, text that is not Unicode, or a
 * name that an object has twice: whoever checked the request on its way may have read the other value.
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
  const inspection = new Inspection(SUSPECT_ESCAPE.test(text));
  inspection.visit(value);
  if (countNames(text) !== inspection.names)
    throw faultAt(repeatedName(text) ?? [], 'single', 'be given once');
  return value;
}

/** Inspects every value once. It writes the path of a value only for a faulty one. */
class Inspection {
  readonly #inspectTexts: boolean;
  readonly #trail: (string | number)[] = [];
  #values = 0;
  /** How many names the objects that were visited have in all. */
  names = 0;

  /** @param inspectTexts false where the texts are known to be valid. */
  constructor(inspectTexts: boolean) {
    this.#inspectTexts = inspectTexts;
  }

  visit(value: unknown): void {
    this.#values += 1;
    if (this.#values > VALUES_MAX) throw tooManyValues();
    if (typeof value === 'string') {
      if (this.#inspectTexts && !isText(value)) throw faultAt(this.#trail, 'characters', `be ${TEXT}`);
      return;
    }
    if (typeof value !== 'object' || value === null) return;
    if (this.#trail.length >= DEPTH_MAX) throw faultAt([], 'depth', `have at most ${DEPTH_MAX} levels`);
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i += 1) this.#visitAt(i, value[i]);
      return;
    }
    for (const name of Object.keys(value)) {
      this.names += 1;
      if (this.#inspectTexts && !isText(name))
        throw faultAt(this.#trail, 'characters', `have names of ${TEXT}`);
      // Copying the object would silently drop the key, or set the copy's prototype.
      if (name === '__proto__') throw faultAt(this.#trail, 'name', 'not have a field named __proto__');
      this.#visitAt(name, (value as Record<string, unknown>)[name]);
    }
  }

  #visitAt(place: string | number, value: unknown): void {
    this.#trail.push(place);
    this.visit(value);
    this.#trail.pop();
  }
}

export function tooManyValues(): AppError {
  return faultAt([], 'size', `have at most ${VALUES_MAX} values`);
}

/** Returns the error for a place of a JSON body. Messages have a field `body` too: a fault of the whole body says what it means. */
function faultAt(trail: readonly PropertyKey[], rule: string, must: string): AppError {
  const subject = trail.length === 0 ? 'Request body must' : 'Must';
  return validationFailed({ field: fieldAt(trail), rule, message: `${subject} ${must}` });
}

const TEXT = 'Unicode text without NUL';

function assertText(text: string, field: string): void {
  if (isText(text)) return;
  throw validationFailed({ field, rule: 'characters', message: `Must be ${TEXT}` });
}

/** Returns false for text that Postgres or UTF-8 cannot store. */
export function isText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

type HttpPart = 'params' | 'querystring' | 'body' | 'headers';

export type ReadInput = (ParsedInput & { readonly value: unknown }) | { readonly error: Error };

/** Returns the reader of one part of a route's requests. It handles spelling, types and rules, and its errors name the fields. */
export function inputReader(
  schema: z.ZodType,
  part: HttpPart,
  method?: string,
  fixed: FieldNames = NO_NAMES,
): (sent: unknown) => ReadInput {
  const isQuery = part === 'querystring';
  const aliases = caseAliasesOf(schema);
  const bounds = countBoundsOf(schema);
  const options = {
    // In a PATCH null clears the field; in other requests serializers write null for an absent field.
    nulls: part === 'body' && method === 'PATCH' ? 'kept' : 'absent',
    kind: isQuery ? 'query parameter' : 'field',
    ...(part === 'body' ? { fixed } : {}),
  } as const;
  const kinds = isQuery ? queryKinds(schema) : NO_KINDS;
  return (sent) => {
    try {
      if (part === 'body') assertObject(sent);
      const read = resolveAliases(aliases, isQuery ? readQuery(sent, kinds) : (sent ?? {}), options);
      const tooMany = countFaults(bounds, read.value);
      if (tooMany.length > 0) return { error: validationFailed(...tooMany.slice(0, DETAILS_MAX)) };
      const parsed = schema.safeParse(read.value, { error: ruleText });
      if (parsed.success) return { value: parsed.data, sent: read.value, warnings: read.warnings };
      // A path with malformed ids names no resource.
      if (part === 'params') return { error: notFound() };
      const twice = isQuery ? givenTwice(parsed.error.issues, read.value) : [];
      return {
        error: twice.length > 0 ? validationFailed(...twice) : rejection(parsed.error.issues, read.value),
      };
    } catch (error) {
      return { error: error as Error };
    }
  };
}

/**
 * Returns what gives fastify the reader of one part of a route's requests, and remembers what it found beside the value.
 * @param fixed fields of the resource that the route's requests do not take.
 */
export function inputCompilerFor(fixed: FieldNames): FastifySchemaCompiler<z.ZodType> {
  return ({ schema, httpPart, method }) => {
    const read = inputReader(schema, httpPart as HttpPart, method, fixed);
    return (sent: unknown) => {
      const result = read(sent);
      if ('error' in result) return result;
      const { value, ...input } = result;
      if (typeof value === 'object' && value !== null) rememberInput(value, input);
      return { value };
    };
  };
}

export const inputCompiler = inputCompilerFor(NO_NAMES);

/** An absent body counts as one without fields; so does null. */
function assertObject(body: unknown): void {
  if (body === undefined || body === null || (typeof body === 'object' && !Array.isArray(body))) return;
  const message = 'Request body must be a JSON object';
  throw new AppError('validation_failed', { message, details: [{ field: 'body', rule: 'type', message }] });
}

/** The parameters that are not text, by name in lower case. */
type QueryKinds = ReadonlyMap<string, 'number' | 'boolean' | 'map'>;
const NO_KINDS: QueryKinds = new Map();

/** `name.key` and `name[key]`: two spellings for one pair of a map, used by people and by generated clients. */
const PAIR = /^([A-Za-z_]+)(?:\.(.*)|\[(.*)\])$/s;

/** Query values arrive as text; values of other kinds are converted before the schema validates them. */
function readQuery(sent: unknown, kinds: QueryKinds): unknown {
  const query: Record<string, unknown> = {};
  const maps = new Map<string, Map<string, unknown>>();
  const kindOf = (name: string) => kinds.get(name.replaceAll('_', '').toLowerCase());
  for (const [name, value] of Object.entries(sent as Record<string, unknown>)) {
    assertText(name, 'query');
    for (const text of [value].flat()) assertText(String(text), name);
    const pair = PAIR.exec(name);
    const map = pair?.[1];
    if (pair !== null && map !== undefined && kindOf(map) === 'map') {
      const key = pair[2] ?? pair[3] ?? '';
      assertKept(key, map);
      const pairs = maps.get(map) ?? new Map<string, unknown>();
      if (pairs.has(key) && !isDeepStrictEqual(pairs.get(key), value)) {
        throw validationFailed(conflictAt(fieldAt([map, key])));
      }
      maps.set(map, pairs.set(key, value));
    } else {
      assertKept(name, 'query');
      query[name] = readValue(value, kindOf(name));
    }
  }
  // A map that was also sent as text is left so, for the schema to refuse.
  for (const [map, pairs] of maps) if (!Object.hasOwn(query, map)) query[map] = Object.fromEntries(pairs);
  return query;
}

/** Neither assigning the name to an object nor a schema's record keeps it, so a filter would be dropped silently. */
function assertKept(name: string, field: string): void {
  if (name !== '__proto__') return;
  const message = 'Must not have a parameter or key named __proto__';
  throw validationFailed({ field, rule: 'name', message });
}

/** As long as a number may be: its bound refuses one too large to be exact, its type refuses a fraction, as in a body. */
const NUMBER = /^-?\d{1,100}(?:\.\d{1,100})?$/;

function readValue(value: unknown, kind: 'number' | 'boolean' | 'map' | undefined): unknown {
  if (typeof value !== 'string') return value;
  if (kind === 'number' && NUMBER.test(value)) return Number(value);
  if (kind === 'boolean' && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}

function queryKinds(schema: z.ZodType): QueryKinds {
  return new Map(
    Object.entries(shapeOf(schema)).flatMap(([name, field]) => {
      const kind = kindOf(field);
      return kind === undefined ? [] : [[name.toLowerCase(), kind] as const];
    }),
  );
}

function kindOf(schema: z.ZodType): 'number' | 'boolean' | 'map' | undefined {
  const parts = partsOf(schema);
  if (parts.kind === 'wrapped') return kindOf(parts.inner);
  if (parts.kind === 'map') return 'map';
  return parts.kind === 'value' && (parts.type === 'number' || parts.type === 'boolean')
    ? parts.type
    : undefined;
}

const RULES: Readonly<Record<string, string>> = {
  invalid_type: 'type',
  too_small: 'min',
  too_big: 'max',
  invalid_format: 'format',
  invalid_value: 'enum',
  invalid_union: 'type',
};

/** Returns the faults of query parameters that were sent more than once: their values arrive as lists, which no schema takes. */
function givenTwice(issues: readonly z.core.$ZodIssue[], sent: unknown): ErrorDetail[] {
  return issues
    .filter(({ path }) => Array.isArray(valueAt(sent, path)))
    .slice(0, DETAILS_MAX)
    .map(({ path }) => ({ field: fieldAt(path), rule: 'single', message: 'Must be given once' }));
}

/** Returns the broken rules for a schema's first issues, as many as an answer shows. */
export function brokenRules(issues: readonly z.core.$ZodIssue[], sent: unknown): ErrorDetail[] {
  const shown = issues.slice(0, DETAILS_MAX);
  return shown.filter((issue) => !isImplied(issue, shown)).map((issue) => brokenRule(issue, sent));
}

/** Whether a number breaks a closer bound of its field too: a whole number has the bounds of its type besides its own. */
function isImplied(issue: z.core.$ZodIssue, others: readonly z.core.$ZodIssue[]): boolean {
  const reach = reachOf(issue);
  if (reach === undefined) return false;
  return others.some(
    (other) =>
      other.code === issue.code &&
      (reachOf(other) ?? reach) < reach &&
      isDeepStrictEqual(other.path, issue.path),
  );
}

/** Returns a number that is the lower, the closer an issue's bound is; undefined for issues without a bound. */
function reachOf(issue: z.core.$ZodIssue): number | undefined {
  if (issue.code === 'too_big') return Number(issue.maximum);
  return issue.code === 'too_small' ? -Number(issue.minimum) : undefined;
}

function brokenRule(issue: z.core.$ZodIssue, sent: unknown): ErrorDetail {
  const field = fieldAt(issue.path);
  const rule = ruleOf(issue, sent);
  if (rule !== 'required' || issue.code === 'custom') return { field, rule, message: issue.message };
  const message = `Field '${field}' ${isCleared(issue, sent) ? 'cannot be null' : 'is required'}`;
  return { field, rule, message };
}

/** Returns how an answer names a place of a request. */
function fieldAt(path: readonly PropertyKey[]): string {
  return path.length === 0 ? 'body' : path.map((name) => shortName(String(name))).join('.');
}

/** Returns the error for a schema's issues: `missing_field` if any of them is an absent field. */
function rejection(issues: readonly z.core.$ZodIssue[], sent: unknown): AppError {
  const details = brokenRules(issues, sent);
  const missing = issues.find((issue) => ruleOf(issue, sent) === 'required');
  if (missing !== undefined) {
    return new AppError('missing_field', { message: brokenRule(missing, sent).message, details });
  }
  const isUrlBlocked = issues.every((issue) => ruleOf(issue, sent) === 'url_blocked');
  return new AppError(isUrlBlocked ? 'url_blocked' : 'validation_failed', { details });
}

function ruleOf(issue: z.core.$ZodIssue, sent: unknown): string {
  if (issue.code === 'custom') return (issue.params?.['rule'] as string | undefined) ?? 'invalid';
  if (issue.code === 'invalid_type' && issue.expected === 'never') return 'unsupported';
  if (isCleared(issue, sent)) return 'required';
  if (issue.path.length > 0 && valueAt(sent, issue.path) === undefined) return 'required';
  if (issue.code === 'invalid_union' && issue.path.at(-1) === 'channel') return 'enum';
  return RULES[issue.code] ?? 'invalid';
}

/** Whether the issue is a null that would clear a required field. */
function isCleared({ path }: z.core.$ZodIssue, sent: unknown): boolean {
  return path.length === 1 && valueAt(sent, path) === null;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, name) => (inner as Record<PropertyKey, unknown> | null | undefined)?.[name],
    value,
  );
}
