import type { ChartValue } from './value-tree.ts';

type Schema = Readonly<Record<string, unknown>>;

export type SchemaOptions = {
  /** Keys that the templates refuse with a better message than a schema could give. */
  readonly refused: Readonly<Record<string, string>>;
  /** Schemas to which an `@schema` refers as `#/definitions/NAME`. */
  readonly definitions?: Readonly<Record<string, Schema>>;
};

/**
 * Returns the JSON Schema of the values: closed wherever the chart knows all keys. `global` stays open and `enabled` is
 * allowed, because a parent chart sets both.
 */
export function valuesSchema(
  values: readonly ChartValue[],
  { refused, definitions = {} }: SchemaOptions,
): Schema {
  const properties = Object.fromEntries(values.map((value) => [value.key, schemaOf(value)]));
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the Despatch chart',
    definitions,
    type: 'object',
    additionalProperties: false,
    properties: {
      ...properties,
      global: { ...(properties['global'] as Schema), additionalProperties: true },
      enabled: { type: 'boolean', description: 'For a parent chart, whose condition this may be.' },
      ...Object.fromEntries(
        Object.entries(refused).map(([key, instead]) => [
          key,
          { description: `No value of this chart: ${instead}.` },
        ]),
      ),
    },
  };
}

function schemaOf({ description, narrowing, default: preset, children }: ChartValue): Schema {
  const described = description === '' ? {} : { description };
  if (children !== undefined) {
    return {
      ...described,
      type: 'object',
      additionalProperties: false,
      properties: Object.fromEntries(children.map((child) => [child.key, schemaOf(child)])),
    };
  }
  return { ...described, ...typeOf(preset), ...narrowing };
}

function typeOf(preset: unknown): Schema {
  if (Array.isArray(preset)) return { type: 'array' };
  if (typeof preset === 'number') return { type: Number.isInteger(preset) ? 'integer' : 'number' };
  // For a null default the type is unknown unless `@schema` states it.
  return preset === null ? {} : { type: typeof preset };
}
