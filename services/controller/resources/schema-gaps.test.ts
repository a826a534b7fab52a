import { expect, test } from 'vitest';
import { CUSTOM_RESOURCES } from './custom-resources.ts';
import { schemaGaps } from './schema-gaps.ts';
import { structuralSchema, type StructuralSchema } from './structural-schema.ts';

test.each(CUSTOM_RESOURCES.map((resource) => [resource.kind, resource] as const))(
  'every field of a %s is described and bounded',
  (_kind, resource) => {
    expect(schemaGaps(structuralSchema(resource))).toEqual([]);
  },
);

const description = 'A thing.';
const status: StructuralSchema = { type: 'object', description, properties: {} };
const text: StructuralSchema = { type: 'string', description, maxLength: 3 };
const list: StructuralSchema = {
  type: 'array',
  description,
  maxItems: 3,
  items: text,
  'x-kubernetes-list-type': 'set',
};

/** A schema that is complete except for one field. */
const planted = (field: StructuralSchema): StructuralSchema => ({
  type: 'object',
  description,
  properties: { spec: { type: 'object', description, properties: { field } }, status },
});

const without = (schema: StructuralSchema, name: string): StructuralSchema =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => key !== name));

const PLANTED: readonly (readonly [gap: string, field: StructuralSchema])[] = [
  ['.spec.field: has no description', without(text, 'description')],
  ['.spec.field: has no description', { ...text, description: '' }],
  ['.spec.field: has no maxLength', without(text, 'maxLength')],
  ['.spec.field: has no type', without(text, 'type')],
  ['.spec.field: is of the unknown type text', { ...text, type: 'text' }],
  ['.spec.field: has nullable', { ...text, nullable: true }],
  ['.spec.field: has x-kubernetes-int-or-string', { ...text, 'x-kubernetes-int-or-string': true }],
  ['.spec.field: has no minimum', { type: 'integer', description, maximum: 3 }],
  ['.spec.field: has no maximum', { type: 'integer', description, minimum: 3 }],
  [
    '.spec.field: is not kept exactly by a reader with floating-point numbers',
    { type: 'integer', description, minimum: 0, maximum: 2 ** 53 },
  ],
  [
    '.spec.field: is a fraction, which two readers may round differently',
    { type: 'number', description, minimum: 0, maximum: 1 },
  ],
  ['.spec.field: is a boolean, which leaves no room for a third state', { type: 'boolean', description }],
  ['.spec.field: has no maxItems', without(list, 'maxItems')],
  ['.spec.field: has no items', without(list, 'items')],
  ['.spec.field: has no x-kubernetes-list-type', without(list, 'x-kubernetes-list-type')],
  ['.spec.field: has no x-kubernetes-list-map-keys', { ...list, 'x-kubernetes-list-type': 'map' }],
  ['.spec.field[]: has no maxLength', { ...list, items: without(text, 'maxLength') }],
  ['.spec.field: has neither properties nor additionalProperties', { type: 'object', description }],
  ['.spec.field: has no maxProperties', { type: 'object', description, additionalProperties: text }],
  [
    '.spec.field{}: has no maxLength',
    { type: 'object', description, maxProperties: 3, additionalProperties: without(text, 'maxLength') },
  ],
  [
    '.spec.field: has x-kubernetes-preserve-unknown-fields',
    { type: 'object', description, properties: {}, 'x-kubernetes-preserve-unknown-fields': true },
  ],
  [
    '.spec.field.inner: has no maxLength',
    { type: 'object', description, properties: { inner: without(text, 'maxLength') } },
  ],
];

test.each(PLANTED)('reports: %s', (gap, field) => {
  expect(schemaGaps(planted(field))).toEqual([gap]);
});

test('a complete schema has no gaps, and one without a status has', () => {
  expect(schemaGaps(planted(text))).toEqual([]);
  expect(schemaGaps({ type: 'object', properties: { spec: status } })).toEqual([
    '.: has no description',
    '.status: is absent',
  ]);
});
