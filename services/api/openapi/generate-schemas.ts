import { INT32_MAX } from '#core/domain/int32-max.ts';

export type Json = Record<string, unknown>;

/** Keywords of a JSON Schema that contain subschemas: by name, a single one, or a list. */
const NAMED = ['properties', 'patternProperties'] as const;
const SINGLE = ['items', 'additionalProperties', 'propertyNames', 'not'] as const;
const LISTED = ['anyOf', 'oneOf', 'allOf'] as const;

/**
 * Rewrites a schema in the subset that client generators support. They interpret `const`, a `pattern` beside a `format`, a
 * default of a union, and `anyOf` with null in their own ways; some generated clients then refuse the service's answers.
 */
export function plainSchema(schema: Json): Json {
  const inner = withInner(schema, plainSchema);
  return REWRITES.reduce((plain, rewrite) => rewrite(plain), inner);
}

const REWRITES: readonly ((schema: Json) => Json)[] = [
  withoutNevers,
  withoutClosure,
  withoutFormPattern,
  constAsEnum,
  integerBounds,
  withoutUnionDefault,
  nullableType,
];

/** Returns the schema with each direct subschema replaced. */
function withInner(schema: Json, replace: (inner: Json) => Json): Json {
  const copy: Json = { ...schema };
  for (const key of NAMED) {
    if (isObject(copy[key])) {
      copy[key] = Object.fromEntries(
        Object.entries(copy[key]).map(([name, inner]) => [name, replace(inner as Json)]),
      );
    }
  }
  for (const key of SINGLE) if (isObject(copy[key])) copy[key] = replace(copy[key]);
  for (const key of LISTED) {
    if (Array.isArray(copy[key])) copy[key] = copy[key].map((inner) => replace(inner as Json));
  }
  return copy;
}

/** A field that is always refused is not part of the interface. */
function withoutNevers(schema: Json): Json {
  if (!isObject(schema['properties'])) return schema;
  const kept = Object.entries(schema['properties']).filter(
    ([, inner]) => JSON.stringify((inner as Json)['not']) !== '{}',
  );
  return { ...schema, properties: Object.fromEntries(kept) };
}

/** Answers may gain fields and requests may contain unknown ones, so no object is closed. */
function withoutClosure({ additionalProperties, ...schema }: Json): Json {
  return additionalProperties === undefined || additionalProperties === false
    ? schema
    : { ...schema, additionalProperties };
}

/** The format already says it; documentation tools generate odd examples from the pattern. */
function withoutFormPattern(schema: Json): Json {
  if (schema['contentEncoding'] !== undefined) {
    const { pattern: _pattern, format: _format, ...rest } = schema;
    return rest;
  }
  if (schema['format'] === undefined) return schema;
  const { pattern: _, ...rest } = schema;
  return rest;
}

function constAsEnum({ const: only, ...schema }: Json): Json {
  return typeof only === 'string'
    ? { ...schema, type: 'string', enum: [only] }
    : { ...schema, ...(only === undefined ? {} : { const: only }) };
}

/**
 * Adds the format: generated clients take an integer without one for 32 bits. Bounds that are only the safe integer range of
 * JavaScript are removed.
 */
function integerBounds(schema: Json): Json {
  if (schema['type'] !== 'integer') return schema;
  const { minimum, maximum, ...rest } = schema as { minimum?: number; maximum?: number };
  const isSmall =
    minimum !== undefined && minimum >= -INT32_MAX && maximum !== undefined && maximum <= INT32_MAX;
  return {
    ...rest,
    format: isSmall ? 'int32' : 'int64',
    ...(minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? {} : { minimum }),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? {} : { maximum }),
  };
}

function withoutUnionDefault(schema: Json): Json {
  if (schema['anyOf'] === undefined && schema['oneOf'] === undefined) return schema;
  const { default: _, ...rest } = schema;
  return rest;
}

/** A plain type or null becomes a type list; a reference stays in an `anyOf` with null. */
function nullableType(schema: Json): Json {
  const { anyOf, ...rest } = schema;
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return schema;
  const [value, none] = anyOf as [Json, Json];
  if (none['type'] !== 'null' || typeof value['type'] !== 'string') return schema;
  return {
    ...value,
    ...rest,
    type: [value['type'], 'null'],
    ...(Array.isArray(value['enum']) ? { enum: [...value['enum'], null] } : {}),
  };
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
