import type { z } from 'zod';
import type { ErrorDetail } from '#core/domain/fault/app-error.ts';
import { partsOf } from './schema-parts.ts';

/**
 * The most elements that lists and maps of an input may have, as its schema states them: of a list by `max`, of a map by
 * `maxProperties` in its meta. Undefined where nothing is bounded.
 */
export type CountBounds = {
  /** If the value is a list. */
  readonly list: number;
  /** If the value is a map. */
  readonly map: number;
  readonly items: CountBounds | undefined;
  readonly fields: ReadonlyMap<string, CountBounds>;
};

const UNBOUNDED: CountBounds = { list: Infinity, map: Infinity, items: undefined, fields: new Map() };

export function countBoundsOf(schema: z.ZodType): CountBounds | undefined {
  const parts = partsOf(schema);
  switch (parts.kind) {
    case 'object': {
      const fields = new Map<string, CountBounds>();
      for (const [name, field] of Object.entries(parts.shape)) {
        const bounds = countBoundsOf(field);
        if (bounds !== undefined) fields.set(name, bounds);
      }
      return fields.size === 0 ? undefined : { ...UNBOUNDED, fields };
    }
    case 'list': {
      const { lengthMax: list } = parts;
      const items = countBoundsOf(parts.element);
      return list === Infinity && items === undefined ? undefined : { ...UNBOUNDED, list, items };
    }
    case 'map': {
      const { maxProperties: map } = (schema.meta() ?? {}) as { maxProperties?: number };
      return map === undefined ? undefined : { ...UNBOUNDED, map };
    }
    case 'union':
      return parts.options.map(countBoundsOf).reduce(either, undefined);
    case 'wrapped':
    case 'piped':
      return countBoundsOf(parts.inner);
    case 'value':
      return undefined;
  }
}

/** Of a union each member may have the value, so the larger bound counts. A member without bounds leaves the others' in force. */
function either(one: CountBounds | undefined, other: CountBounds | undefined): CountBounds | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const fields = new Map(one.fields);
  for (const [name, bounds] of other.fields) fields.set(name, either(fields.get(name), bounds) ?? bounds);
  return {
    list: larger(one.list, other.list),
    map: larger(one.map, other.map),
    items: either(one.items, other.items),
    fields,
  };
}

/** The larger one of two bounds; infinity is none. */
function larger(a: number, b: number): number {
  if (a === Infinity || b === Infinity) return Math.min(a, b);
  return Math.max(a, b);
}

/**
 * Returns a fault for each list or map that has too many elements. Checked before the schema, which checks a bound after it has
 * checked every element: with thousands of faulty elements that takes seconds.
 */
export function countFaults(bounds: CountBounds | undefined, value: unknown, path = ''): ErrorDetail[] {
  if (bounds === undefined || typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) {
    if (value.length > bounds.list) return [tooMany(path, bounds.list, 'items')];
    const { items } = bounds;
    return items === undefined ? [] : value.flatMap((item, i) => countFaults(items, item, `${path}${i}.`));
  }
  if (bounds.map !== Infinity && Object.keys(value).length > bounds.map)
    return [tooMany(path, bounds.map, 'pairs')];
  const faults: ErrorDetail[] = [];
  for (const [name, inner] of bounds.fields) {
    const field = (value as Readonly<Record<string, unknown>>)[name];
    if (field !== undefined) faults.push(...countFaults(inner, field, `${path}${name}.`));
  }
  return faults;
}

/** @param path of the elements, with a dot at its end. */
function tooMany(path: string, most: number, what: 'items' | 'pairs'): ErrorDetail {
  const field = path === '' ? 'body' : path.slice(0, -1);
  return { field, rule: 'max', message: `Must have at most ${most} ${what}` };
}
