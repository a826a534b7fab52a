type Json = Readonly<Record<string, unknown>>;
/** Requests may become less strict and answers more precise, but not the reverse. */
type Direction = 'request' | 'answer';
type Side = { readonly document: Json };
type Pair = { readonly before: Json; readonly after: Json };
type Context = {
  readonly old: Side;
  readonly now: Side;
  readonly direction: Direction;
  readonly seen: ReadonlySet<string>;
};

/**
 * Returns the changes that would break a client generated from the earlier document, a line each: removed operations, fields and
 * values, stricter requests, and answers with new possibilities.
 */
export function incompatibleChanges(before: Json, after: Json): string[] {
  const old = { document: before };
  const now = { document: after };
  return operationsOf(before).flatMap(({ name, operation }) => {
    const successor = operationsOf(after).find((one) => one.name === name)?.operation;
    if (successor === undefined) return [`${name}: is gone`];
    return compareOperation(old, now, { before: operation, after: successor }).map(
      (change) => `${name}: ${change}`,
    );
  });
}

function operationsOf(document: Json): { readonly name: string; readonly operation: Json }[] {
  return entries(document['paths']).flatMap(([path, methods]) =>
    entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      operation: operation as Json,
    })),
  );
}

function compareOperation(old: Side, now: Side, { before, after }: Pair): string[] {
  const request: Context = { old, now, direction: 'request', seen: new Set() };
  const answer: Context = { old, now, direction: 'answer', seen: new Set() };
  return [
    ...(before['operationId'] === after['operationId']
      ? []
      : [`is called ${String(after['operationId'])} now`]),
    ...schemes(before)
      .filter((scheme) => !schemes(after).includes(scheme))
      .map((scheme) => `no longer takes ${scheme}`),
    ...compareParameters(request, { before, after }),
    ...compareBody(request, { before, after }),
    ...compareAnswers(answer, { before, after }),
  ];
}

function schemes(operation: Json): string[] {
  return list(operation['security']).flatMap((one) => Object.keys(one as Json));
}

function compareParameters(context: Context, { before, after }: Pair): string[] {
  const former = parametersOf(context.old, before);
  const present = parametersOf(context.now, after);
  const gone = [...former].flatMap(([name, one]) => {
    const other = present.get(name);
    if (other === undefined) return [`parameter ${name} is gone`];
    return compareSchemas(context, { before: one['schema'] as Json, after: other['schema'] as Json }, name);
  });
  const required = [...present]
    .filter(([name, one]) => one['required'] === true && former.get(name)?.['required'] !== true)
    .map(([name]) => `parameter ${name} is required`);
  return [...gone, ...required];
}

function parametersOf(side: Side, operation: Json): Map<string, Json> {
  const all = list(operation['parameters']).map((one) => resolve(side, one as Json));
  return new Map(all.map((one) => [`${String(one['in'])} ${String(one['name'])}`, one]));
}

function compareBody(context: Context, { before, after }: Pair): string[] {
  const former = schemaOf(context.old, before['requestBody']);
  const present = schemaOf(context.now, after['requestBody']);
  if (former === undefined) {
    return (after['requestBody'] as Json | undefined)?.['required'] === true ? ['a body is required'] : [];
  }
  return present === undefined
    ? ['takes no body']
    : compareSchemas(context, { before: former, after: present }, 'body');
}

function compareAnswers(context: Context, { before, after }: Pair): string[] {
  return entries(before['responses']).flatMap(([status, one]) => {
    const other = (after['responses'] as Json)[status];
    // Removing an error answer breaks no client.
    if (other === undefined) return Number(status) < 400 ? [`no longer answers ${status}`] : [];
    const former = resolve(context.old, one as Json);
    const present = resolve(context.now, other as Json);
    const headers = entries(former['headers']).flatMap(([name]) =>
      (present['headers'] as Json | undefined)?.[name] === undefined
        ? [`${status} has no header ${name}`]
        : [],
    );
    const schemas = { before: schemaOf(context.old, former), after: schemaOf(context.now, present) };
    if (schemas.before === undefined) return headers;
    if (schemas.after === undefined) return [...headers, `${status} has no body`];
    return [...headers, ...compareSchemas(context, schemas as Pair, status)];
  });
}

function schemaOf(side: Side, body: unknown): Json | undefined {
  const content = resolve(side, (body ?? {}) as Json)['content'] as Json | undefined;
  return (content?.['application/json'] as Json | undefined)?.['schema'] as Json | undefined;
}

const LOWER_BOUNDS = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'] as const;
const UPPER_BOUNDS = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'] as const;

function compareSchemas(context: Context, { before, after }: Pair, place: string): string[] {
  const pair = `${String(before['$ref'])} ${String(after['$ref'])}`;
  if (before['$ref'] !== undefined && context.seen.has(pair)) return [];
  const within = { ...context, seen: new Set([...context.seen, pair]) };
  const former = resolve(context.old, before);
  const present = resolve(context.now, after);
  const schemas = { before: former, after: present };
  return [
    ...compareSets(within, typesOf(former), typesOf(present), 'type', place),
    ...compareValues(within, schemas, place),
    ...compareBounds(within, schemas, place),
    ...(['format', 'pattern'] as const).flatMap((word) => {
      const isLoosened = present[word] === undefined && context.direction === 'request';
      return former[word] === present[word] || isLoosened
        ? []
        : [`${place}: ${word} is ${String(present[word])}`];
    }),
    ...compareFields(within, schemas, place),
    ...(['items', 'additionalProperties'] as const).flatMap((word) => {
      const [one, other] = [former[word], present[word]];
      if (typeof one !== 'object' || one === null) return [];
      if (typeof other !== 'object' || other === null) return [];
      return compareSchemas(within, { before: one as Json, after: other as Json }, `${place}[]`);
    }),
    ...(['oneOf', 'anyOf'] as const).flatMap((word) => compareChoices(within, schemas, word, place)),
  ];
}

function typesOf(schema: Json): string[] {
  return [schema['type'] ?? []].flat() as string[];
}

/** A request may accept more alternatives, an answer may return fewer. */
function compareSets(
  { direction }: Context,
  before: readonly string[],
  after: readonly string[],
  what: string,
  place: string,
): string[] {
  if (before.length === 0 && after.length === 0) return [];
  const gone = before.filter((one) => !after.includes(one));
  const added = after.filter((one) => !before.includes(one));
  return direction === 'request'
    ? gone.map((one) => `${place}: no longer takes ${what} ${one}`)
    : added.map((one) => `${place}: may have ${what} ${one}`);
}

/**
 * A value that was removed from answers is also missing from the types of a client's next version, so its code no longer
 * compiles.
 */
function compareValues({ direction }: Context, { before, after }: Pair, place: string): string[] {
  const [former, present] = [before['enum'], after['enum']] as (unknown[] | undefined)[];
  if (former === undefined && present === undefined) return [];
  if (former === undefined) return direction === 'request' ? [`${place}: takes certain values only`] : [];
  if (present === undefined) return direction === 'answer' ? [`${place}: may have any value`] : [];
  const gone = former.filter((one) => !present.includes(one));
  const added = direction === 'answer' ? present.filter((one) => !former.includes(one)) : [];
  return [
    ...gone.map((one) => `${place}: value ${String(one)} is gone`),
    ...added.map((one) => `${place}: may have value ${String(one)}`),
  ];
}

function compareBounds({ direction }: Context, { before, after }: Pair, place: string): string[] {
  // A wider bound is allowed for requests and not for answers.
  const sign = direction === 'request' ? 1 : -1;
  const changed = (word: string, unbounded: number): boolean => {
    const [former, present] = [before[word] ?? unbounded, after[word] ?? unbounded] as number[];
    const tightened = Math.sign((present ?? 0) - (former ?? 0)) * Math.sign(-unbounded);
    return former !== present && tightened === sign;
  };
  return [
    ...LOWER_BOUNDS.filter((word) => changed(word, -Infinity)),
    ...UPPER_BOUNDS.filter((word) => changed(word, Infinity)),
  ].map((word) => `${place}: ${word} is ${after[word] === undefined ? 'gone' : Number(after[word])}`);
}

function compareFields(context: Context, { before, after }: Pair, place: string): string[] {
  const present = (after['properties'] ?? {}) as Json;
  const fields = entries(before['properties']).flatMap(([name, field]) => {
    const below = `${place}.${name}`;
    return present[name] === undefined
      ? [`${below}: is gone`]
      : compareSchemas(context, { before: field as Json, after: present[name] as Json }, below);
  });
  const [former, required] = [list(before['required']), list(after['required'])];
  const demanded = required
    .filter((name) => !former.includes(name))
    .map((name) => `${place}.${String(name)}: is required`);
  const withheld = former
    .filter((name) => !required.includes(name) && present[String(name)] !== undefined)
    .map((name) => `${place}.${String(name)}: may be absent`);
  return [...fields, ...(context.direction === 'request' ? demanded : withheld)];
}

/** Compares alternatives by the names of their schemas, or by position where they have none. */
function compareChoices(
  context: Context,
  { before, after }: Pair,
  word: 'oneOf' | 'anyOf',
  place: string,
): string[] {
  const nameOf = (one: unknown, i: number): string =>
    ((one as { $ref?: string }).$ref ?? String(i)).replace(/^.*\//, '');
  const former = new Map(list(before[word]).map((one, i) => [nameOf(one, i), one as Json]));
  const present = new Map(list(after[word]).map((one, i) => [nameOf(one, i), one as Json]));
  const shared = [...former].flatMap(([name, one]) => {
    const other = present.get(name);
    return other === undefined
      ? []
      : compareSchemas(context, { before: one, after: other }, `${place}<${name}>`);
  });
  return [...compareSets(context, [...former.keys()], [...present.keys()], 'alternative', place), ...shared];
}

function resolve({ document }: Side, value: Json): Json {
  const reference = value['$ref'];
  if (typeof reference !== 'string') return value;
  const found = reference
    .slice('#/'.length)
    .split('/')
    .reduce<unknown>((inner, name) => (inner as Json | undefined)?.[name], document);
  return resolve({ document }, (found ?? {}) as Json);
}

function entries(value: unknown): [string, unknown][] {
  return Object.entries((value ?? {}) as Json);
}

function list(value: unknown): readonly unknown[] {
  return (value ?? []) as readonly unknown[];
}
