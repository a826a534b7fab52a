import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { incompatibleChanges } from './analysis/api-changes.ts';

const read = async (path: string): Promise<string> => readFile(new URL(path, import.meta.url), 'utf8');

// CONTRIBUTING, section "Changing the API", explains how to react to a failure.
test('the API has exactly the incompatible changes that accepted.txt lists', async () => {
  const [released, present] = [
    JSON.parse(await read('api-baseline/openapi.json')) as Document,
    JSON.parse(await read('../services/api/openapi.json')) as Document,
  ];
  const lines = (await read('api-baseline/accepted.txt')).split('\n').map((line) => line.trim());
  const accepted = lines.filter((line) => line !== '' && !line.startsWith('#'));
  const changes = incompatibleChanges(released, present);
  const covers = (line: string, change: string): boolean =>
    line.startsWith(EVERYWHERE) ? change.endsWith(line.slice(EVERYWHERE.length)) : change === line;
  expect(changes.filter((change) => !accepted.some((line) => covers(line, change)))).toEqual([]);
  expect(accepted.filter((line) => !changes.some((change) => covers(line, change)))).toEqual([]);
});

/** Prefix of a line that is accepted for every answer. */
const EVERYWHERE = '*';

type Document = Record<string, unknown>;

/** A small interface that contains every construct of the real one. */
function example() {
  return {
    paths: {
      '/v1/things': {
        post: {
          operationId: 'createThing',
          security: [{ serviceKey: [] }, { bearer: [] }],
          parameters: [
            { $ref: '#/components/parameters/Slug' },
            {
              in: 'query',
              name: 'limit',
              required: false,
              schema: { type: 'integer', minimum: 1, maximum: 200 },
            },
          ],
          requestBody: {
            required: true,
            content: { 'application/json': { schema: { $ref: '#/components/schemas/CreateThing' } } },
          },
          responses: {
            '201': {
              description: 'Created',
              headers: { 'X-Request-Id': {} },
              content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } },
            },
            '404': { $ref: '#/components/responses/Error404' },
          } as Record<string, unknown>,
        },
        get: { operationId: 'listThings', responses: { '200': { description: 'Success' } } },
      } as Record<string, Record<string, any>>, // oxlint-disable-line typescript/no-explicit-any -- tests take parts away
    },
    components: {
      parameters: {
        Slug: { in: 'header', name: 'X-Tenant-Slug', required: false, schema: { type: 'string' } },
      },
      responses: { Error404: { description: 'Not found' } },
      schemas: {
        CreateThing: {
          oneOf: [{ $ref: '#/components/schemas/Red' }, { $ref: '#/components/schemas/Blue' }],
        },
        Red: {
          type: 'object',
          required: ['kind'],
          properties: {
            kind: { type: 'string', enum: ['red'] },
            shade: { type: 'string', enum: ['light', 'dark'] },
            name: { type: 'string', minLength: 2, maxLength: 80 },
            code: { type: ['string', 'null'] },
          },
        },
        Blue: {
          type: 'object',
          required: ['kind'],
          properties: { kind: { type: 'string', enum: ['blue'] } },
        },
        Thing: {
          type: 'object',
          required: ['id', 'state', 'parts'],
          properties: {
            id: { type: 'string', format: 'uuid' },
            state: { type: 'string', enum: ['new', 'old'] },
            size: { type: 'integer', minimum: 0, maximum: 10 },
            note: { type: 'string' },
            parts: { type: 'array', items: { $ref: '#/components/schemas/Thing' } },
          },
        },
      } as Record<string, Record<string, any>>, // oxlint-disable-line typescript/no-explicit-any -- as above
    },
  };
}
type Example = ReturnType<typeof example>;

const post = ({ paths }: Example) => paths['/v1/things']?.['post'] as Record<string, any>; // oxlint-disable-line typescript/no-explicit-any -- as above
const methods = ({ paths }: Example) => paths['/v1/things'] as Record<string, any>; // oxlint-disable-line typescript/no-explicit-any -- as above
const schema = ({ components }: Example, name: string) => components.schemas[name] as Record<string, any>; // oxlint-disable-line typescript/no-explicit-any -- as above

describe('finds the incompatible change', () => {
  test.each<[string, (api: Example) => void]>([
    ['POST /v1/things: is gone', (api) => delete api.paths['/v1/things']?.['post']],
    ['POST /v1/things: is called makeThing now', (api) => (post(api)['operationId'] = 'makeThing')],
    ['POST /v1/things: no longer takes bearer', (api) => post(api)['security'].pop()],
    ['POST /v1/things: parameter query limit is gone', (api) => post(api)['parameters'].pop()],
    [
      'POST /v1/things: query limit: maximum is 100',
      (api) => (post(api)['parameters'][1].schema.maximum = 100),
    ],
    [
      'POST /v1/things: parameter header X-Tenant-Slug is required',
      (api) => (api.components.parameters.Slug.required = true),
    ],
    ['POST /v1/things: takes no body', (api) => delete post(api)['requestBody']],
    [
      'GET /v1/things: a body is required',
      (api) => (methods(api)['get'].requestBody = { required: true, content: {} }),
    ],
    [
      'POST /v1/things: body: no longer takes alternative Blue',
      (api) => schema(api, 'CreateThing')['oneOf'].pop(),
    ],
    ['POST /v1/things: body<Red>.name: is required', (api) => schema(api, 'Red')['required'].push('name')],
    ['POST /v1/things: body<Red>.name: is gone', (api) => delete schema(api, 'Red')['properties'].name],
    [
      'POST /v1/things: body<Red>.name: minLength is 3',
      (api) => (schema(api, 'Red')['properties'].name.minLength = 3),
    ],
    [
      'POST /v1/things: body<Red>.name: maxLength is 9',
      (api) => (schema(api, 'Red')['properties'].name.maxLength = 9),
    ],
    [
      'POST /v1/things: body<Red>.name: pattern is ^a',
      (api) => (schema(api, 'Red')['properties'].name.pattern = '^a'),
    ],
    [
      'POST /v1/things: body<Red>.shade: value dark is gone',
      (api) => schema(api, 'Red')['properties'].shade.enum.pop(),
    ],
    [
      'POST /v1/things: body<Red>.name: takes certain values only',
      (api) => (schema(api, 'Red')['properties'].name.enum = ['a', 'b']),
    ],
    [
      'POST /v1/things: body<Red>.code: no longer takes type null',
      (api) => (schema(api, 'Red')['properties'].code.type = ['string']),
    ],
    ['POST /v1/things: no longer answers 201', (api) => delete post(api)['responses']['201']],
    [
      'POST /v1/things: 201 has no header X-Request-Id',
      (api) => (post(api)['responses']['201'].headers = {}),
    ],
    ['POST /v1/things: 201 has no body', (api) => delete post(api)['responses']['201'].content],
    ['POST /v1/things: 201.note: is gone', (api) => delete schema(api, 'Thing')['properties'].note],
    ['POST /v1/things: 201.parts: may be absent', (api) => schema(api, 'Thing')['required'].pop()],
    [
      'POST /v1/things: 201.state: value old is gone',
      (api) => schema(api, 'Thing')['properties'].state.enum.pop(),
    ],
    [
      'POST /v1/things: 201.state: may have value lost',
      (api) => schema(api, 'Thing')['properties'].state.enum.push('lost'),
    ],
    [
      'POST /v1/things: 201.size: maximum is 20',
      (api) => (schema(api, 'Thing')['properties'].size.maximum = 20),
    ],
    [
      'POST /v1/things: 201.size: minimum is gone',
      (api) => delete schema(api, 'Thing')['properties'].size.minimum,
    ],
    [
      'POST /v1/things: 201.size: may have type null',
      (api) => (schema(api, 'Thing')['properties'].size.type = ['integer', 'null']),
    ],
    [
      'POST /v1/things: 201.id: format is undefined',
      (api) => delete schema(api, 'Thing')['properties'].id.format,
    ],
  ])('%s', (finding, change) => {
    const after = example();
    change(after);
    expect(incompatibleChanges(example(), after)).toEqual([finding]);
  });
});

test.each<[string, (api: Example) => void]>([
  ['no change', () => {}],
  ['a new operation', (api) => (methods(api)['put'] = { operationId: 'putThing', responses: {} })],
  ['a new optional parameter', (api) => post(api)['parameters'].push({ in: 'query', name: 'q', schema: {} })],
  [
    'a new optional field of a request',
    (api) => (schema(api, 'Red')['properties'].more = { type: 'string' }),
  ],
  ['a new enum value of a request', (api) => schema(api, 'Red')['properties'].shade.enum.push('deep')],
  ['a wider bound of a request', (api) => (schema(api, 'Red')['properties'].name.maxLength = 90)],
  ['a request field that becomes optional', (api) => (schema(api, 'Red')['required'] = [])],
  ['a new field of a response', (api) => (schema(api, 'Thing')['properties'].more = { type: 'string' })],
  ['a response field that becomes required', (api) => schema(api, 'Thing')['required'].push('note')],
  ['a narrower bound of a response', (api) => (schema(api, 'Thing')['properties'].size.maximum = 5)],
  ['an error that no longer occurs', (api) => delete post(api)['responses']['404']],
  ['a new error', (api) => (post(api)['responses']['409'] = { description: 'Conflict' })],
])('%s is compatible', (_name, change) => {
  const after = example();
  change(after);
  expect(incompatibleChanges(example(), after)).toEqual([]);
});
