import { expect, test } from 'vitest';
import { readValueTree } from './value-tree.ts';
import { valuesSchema } from './values-schema.ts';
import { valuesTable } from './values-table.ts';

const TEXT = `# Words of the file.

# -- First part

# Shared.
global:
  # A registry.
  registry: ""
# -- Second part

api:
  # Whether it runs,
  # and more.
  enabled: true
  # How | many.
  # @schema {minimum: 0}
  replicas: 2
  # Keys.
  keys:
    a: x
    b: y
  # Passed on.
  # @schema {type: object}
  resources:
    limits: {memory: 1Gi}
  # Either.
  # @schema {type: [integer, "null"]}
  port: null
  ratio: 0.5
  # Names.
  # @schema {items: {type: string}}
  names: []
`;

test('a comment belongs to the key below it, even if that is the first key of a map', () => {
  const [global, api] = readValueTree(TEXT);
  expect(global).toMatchObject({ section: 'First part', description: 'Shared.' });
  expect(global?.children?.map(({ path, description }) => [path, description])).toEqual([
    ['global.registry', 'A registry.'],
  ]);
  expect(api).toMatchObject({ section: 'Second part', description: '' });
  expect(api?.children?.[0]).toMatchObject({ description: 'Whether it runs, and more.', default: true });
});

test('the schema allows further values only at the root of global and in objects that are passed on', () => {
  const { properties, ...root } = valuesSchema(readValueTree(TEXT)) as {
    properties: Record<string, { properties: Record<string, object> }>;
  };
  expect(root).toMatchObject({ type: 'object', additionalProperties: false });
  expect(properties['global']).toMatchObject({ additionalProperties: true });
  expect(properties['enabled']).toMatchObject({ type: 'boolean' });
  expect(properties['api']).toMatchObject({
    additionalProperties: false,
    // Neither a map that is passed on nor a value that may be null.
    required: ['enabled', 'replicas', 'keys', 'ratio', 'names'],
  });
  expect(properties['api']?.properties).toEqual({
    enabled: { description: 'Whether it runs, and more.', type: 'boolean' },
    replicas: { description: 'How | many.', type: 'integer', minimum: 0 },
    keys: {
      description: 'Keys.',
      type: 'object',
      additionalProperties: false,
      required: ['a', 'b'],
      properties: { a: { type: 'string' }, b: { type: 'string' } },
    },
    resources: { description: 'Passed on.', type: 'object' },
    port: { description: 'Either.', type: ['integer', 'null'] },
    ratio: { type: 'number' },
    names: { description: 'Names.', type: 'array', items: { type: 'string' } },
  });
});

test('the table has a row for each value that can be set, with bars escaped', () => {
  const table = valuesTable(readValueTree(TEXT));
  expect(table).toContain('### Second part\n\n| value | default | description |');
  expect(table).toContain('| `api.keys` | `{"a":"x","b":"y"}` | Keys. |');
  expect(table).toContain(String.raw`| How \| many. |`);
  expect(table).not.toContain('`api.keys.a`');
});

test('a file that is not a map and an invalid @schema are rejected', () => {
  expect(() => readValueTree('- a')).toThrow('holds no map');
  expect(() => readValueTree('# @schema word\na: 1')).toThrow('a: @schema must be a flow map');
});
