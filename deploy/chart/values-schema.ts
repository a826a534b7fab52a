import type { ChartValue } from './value-tree.ts';

type Schema = Readonly<Record<string, unknown>>;

/**
 * Returns the JSON Schema of the values: closed wherever the chart knows all keys. `global` stays open and `enabled` is
 * allowed, because a parent chart sets both.
 *
 * Helm removes a value that is set to `null`, and templates would render it as 0 or as an empty list. So every value is required that
 * may not be null; only maps that are passed through may be removed.
 * @param definitions schemas to which an `@schema` refers as `#/definitions/NAME`.
 */
export function valuesSchema(
  values: readonly ChartValue[],
  definitions: Readonly<Record<string, Schema>> = {},
): Schema {
  const properties = Object.fromEntries(values.map((value) => [value.key, schemaOf(value)]));
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the Despatch chart',
    definitions,
    type: 'object',
    additionalProperties: false,
    required: requiredKeys(values),
    properties: {
      ...properties,
      global: { ...(properties['global'] as Schema), additionalProperties: true },
      enabled: { type: 'boolean', description: 'For a parent chart, whose condition this may be.' },
    },
  };
}

function schemaOf({ key, description, narrowing, default: preset, children }: ChartValue): Schema {
  const described = description === '' ? {} : { description };
  if (children !== undefined) {
    return {
      ...described,
      type: 'object',
      additionalProperties: false,
      required: requiredKeys(children),
      properties: Object.fromEntries(children.map((child) => [child.key, schemaOf(child)])),
    };
  }
  const inner = TEXT_MAP.test(key) ? { additionalProperties: { type: 'string' } } : {};
  return { ...described, ...typeOf(preset), ...inner, ...narrowing };
}

/** Maps whose values the API server accepts only as text: YAML reads `false` and `7` as something else. */
const TEXT_MAP = /(?:labels|annotations|nodeSelector)$/i;

function requiredKeys(values: readonly ChartValue[]): string[] {
  return values.filter((value) => value.children !== undefined || !mayBeNull(value)).map(({ key }) => key);
}

function mayBeNull({ narrowing, default: preset }: ChartValue): boolean {
  if (preset === null || (typeof preset === 'object' && !Array.isArray(preset))) return true;
  const { type } = narrowing;
  return Array.isArray(type) && type.includes('null');
}

function typeOf(preset: unknown): Schema {
  if (Array.isArray(preset)) return { type: 'array' };
  if (typeof preset === 'number') return { type: Number.isInteger(preset) ? 'integer' : 'number' };
  // For a null default the type is unknown unless `@schema` states it.
  return preset === null ? {} : { type: typeof preset };
}
