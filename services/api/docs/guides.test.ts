import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { dailyLimit } from '#core/domain/tenant/mode-limits.ts';
import { ERROR_CODES } from '#core/domain/fault/app-error.ts';
import { FAILURE_CLASSES } from '#core/domain/sending/failure.ts';
import { LIMIT_NAMES } from '#core/domain/tenant/plan.ts';
import { MESSAGE_STATES } from '#core/domain/message/message-state.ts';
import { HARD_BOUNCES } from '#core/domain/recipient/suppression-cause.ts';
import { USER_LIMIT } from '../auth/authenticate.ts';
import { uncountedLimit } from '../auth/uncounted-sends.ts';
import openApiDocument from '../openapi.json' with { type: 'json' };
import { EXAMPLE_LANGUAGES, OPERATION_EXAMPLES } from './examples.ts';
import { GUIDES, readGuides } from './guides.ts';

const text = readGuides('https://api.example.com');

test('the text includes every guide file and has no unresolved placeholder', () => {
  const files = readdirSync(new URL('guides', import.meta.url));
  expect([...GUIDES].map((name) => `${name}.md`).toSorted()).toEqual(files.toSorted());
  expect(text).not.toContain('{{');
  expect(text).toContain('export DESPATCH_URL=https://api.example.com');
});

test('every example appears in a guide, in all languages', () => {
  const files = readdirSync(new URL('examples', import.meta.url));
  const names = new Set(files.map((file) => file.replace(/\..*$/, '')));
  expect(files).toHaveLength(names.size * EXAMPLE_LANGUAGES.length);
  for (const { label } of EXAMPLE_LANGUAGES.slice(1)) {
    expect(text.split(`<summary>${label}</summary>`)).toHaveLength(names.size + 1);
  }
});

test('every link within the page targets a guide', () => {
  const slugs = [...text.matchAll(/^# (.+)$/gm)].map(([, title = '']) =>
    title.toLowerCase().replaceAll(' ', '-'),
  );
  const targets = [...text.matchAll(/\(#description\/([^)]+)\)/g)].map(([, target]) => target);
  expect(targets.length).toBeGreaterThan(0);
  for (const target of targets) expect(slugs).toContain(target);
});

test.each([
  ['channel', CHANNELS],
  ['failure class', FAILURE_CLASSES],
  ['state', MESSAGE_STATES],
])('the guides mention every %s', (_kind, names) => {
  for (const name of names) expect(text).toContain(`\`${name}\``);
});

test('the guide to own gateways lists the codes that suppress a recipient', () => {
  const guide = text.slice(text.indexOf('\n# Your own gateway'));
  for (const code of ['recipient_opted_out', ...HARD_BOUNCES]) expect(guide).toContain(`\`${code}\``);
});

test('no guide names an error code or a limit that does not exist', () => {
  const testLimit = dailyLimit({ messagesPerDay: 1 }, true);
  const others = [USER_LIMIT, testLimit, uncountedLimit(1)].map(({ name }) => name);
  const known = new Set<string>([...ERROR_CODES, ...LIMIT_NAMES, ...others]);
  const codes = [...text.matchAll(/(?:4\d\d|503)\*{0,2} `([a-z_]+)`/g)].map(([, code = '']) => code);
  const limits = [...text.matchAll(/`(\w+(?:PerDay|PerMinute|Max))`/g)].map(([, name = '']) => name);
  expect(codes.length).toBeGreaterThan(2);
  expect(limits.length).toBeGreaterThan(2);
  for (const name of [...codes, ...limits]) expect(known).toContain(name);
});

test('every operation example belongs to an operation of the API', () => {
  const operations = Object.values(openApiDocument.paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId }) => operationId),
  );
  expect(Object.keys(OPERATION_EXAMPLES).length).toBeGreaterThan(0);
  for (const id of Object.keys(OPERATION_EXAMPLES)) expect(operations).toContain(id);
});

type Schema = {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
};
type Operation = {
  readonly parameters?: readonly { readonly in?: string; readonly name?: string; readonly $ref?: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: Schema }>> };
};

const PATHS = openApiDocument.paths as unknown as Record<string, Record<string, Operation>>;
const COMPONENTS = openApiDocument.components as unknown as Record<string, Record<string, unknown>>;

/** Returns the calls in the guides, parsed as a shell would; another test runs the examples. */
function curls(): { line: string; method: string; url: URL; body: string | undefined }[] {
  const blocks = [...text.matchAll(/^```(?:sh|bash)\n([^]*?)^```/gm)].map(([, block = '']) => block);
  const commands = blocks.flatMap((block) => block.replaceAll('\\\n', ' ').split(/\n(?=curl )/));
  return commands
    .filter((command) => command.startsWith('curl ') && command.includes('https://api.example.com/v1/'))
    .map((line) => {
      const url = new URL(/https:\/\/api\.example\.com[^'"\s]*/.exec(line)?.[0] ?? '');
      const query = /--data-urlencode '([^']*)'/.exec(line)?.[1];
      if (query !== undefined) url.search = query;
      const body = / -d '([^']*)'/.exec(line)?.[1];
      const isSending = body !== undefined || line.includes('--data-binary');
      return { line, method: / -X (\w+)/.exec(line)?.[1] ?? (isSending ? 'POST' : 'GET'), url, body };
    });
}

function resolve<T extends { readonly $ref?: string }>(one: T): T {
  const [, , kind = '', name = ''] = one.$ref?.split('/') ?? [];
  return one.$ref === undefined ? one : (COMPONENTS[kind]?.[name] as T);
}

/** Returns the faults of an example: fields that are unknown, missing, or have a value outside the schema. */
function faultsOf(value: unknown, given: Schema, at: string): string[] {
  const schema = resolve(given);
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices !== undefined) {
    const faults = choices.map((choice) => faultsOf(value, choice, at));
    return faults.toSorted((a, b) => a.length - b.length)[0] ?? [];
  }
  if (schema.allOf !== undefined) return schema.allOf.flatMap((part) => faultsOf(value, part, at));
  if (schema.enum !== undefined && !schema.enum.includes(value)) return [`${at} is none of its values`];
  if (Array.isArray(value))
    return value.flatMap((item, i) => faultsOf(item, schema.items ?? {}, `${at}.${i}`));
  const { properties, required = [] } = schema;
  if (typeof value !== 'object' || value === null || properties === undefined) return [];
  const fields = value as Record<string, unknown>;
  return [
    ...required.filter((name) => !(name in fields)).map((name) => `${at}.${name} is missing`),
    ...Object.entries(fields).flatMap(([name, field]) => {
      const known = properties[name];
      return known === undefined ? [`${at}.${name} is unknown`] : faultsOf(field, known, `${at}.${name}`);
    }),
  ];
}

function callFaults({ method, url, body }: ReturnType<typeof curls>[number]): string[] {
  const path = Object.keys(PATHS).find(
    (known) =>
      !(known.includes('{') && url.pathname in PATHS) &&
      new RegExp(`^${known.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(url.pathname),
  );
  const operation = PATHS[path ?? '']?.[method.toLowerCase()];
  if (operation === undefined) return [`there is no ${method} ${url.pathname}`];
  const { parameters = [], requestBody } = operation;
  const queries = parameters.map(resolve).flatMap((one) => (one.in === 'query' ? [one.name] : []));
  const strangers = [...url.searchParams.keys()].filter((name) => !queries.includes(name));
  const schema = requestBody?.content['application/json']?.schema;
  return [
    ...strangers.map((name) => `the query has no ${name}`),
    ...(body === undefined ? [] : schema === undefined ? ['takes no JSON'] : []),
    ...(body !== undefined && schema !== undefined ? faultsOf(JSON.parse(body), schema, 'body') : []),
  ];
}

test('every curl call in the guides matches an operation and its schema', () => {
  const calls = curls();
  expect(calls.length).toBeGreaterThan(14);
  // One item of the batch demonstrates a refusal; its value is invalid on purpose, its fields are not.
  expect(calls.flatMap((one) => callFaults(one).map((fault) => `${fault}: ${one.line}`))).toEqual([]);
});

test.each([
  ['an unknown path', "curl '/v1/message'", 'POST', '/v1/message', '{}', 'there is no POST'],
  [
    'an unknown field',
    'cancel',
    'POST',
    '/v1/messages/cancel',
    '{"filter":{"tags":"a"}}',
    'body.filter.tags is unknown',
  ],
  ['a missing field', 'clock', 'POST', '/v1/messages/test-clock', '{}', 'body.advance is missing'],
  [
    'an invalid value',
    'batch',
    'POST',
    '/v1/messages/batch',
    '{"mode":"some","messages":[]}',
    'body.mode is none',
  ],
  ['an unknown query parameter', 'usage', 'GET', '/v1/admin/usage?by=day', undefined, 'the query has no by'],
])('the check of curl calls reports %s', (_what, line, method, path, body, fault) => {
  const url = new URL(path, 'https://api.example.com');
  expect(callFaults({ line, method, url, body })).toContainEqual(expect.stringContaining(fault));
});
