import type { z } from 'zod';
import { validationFailed, type ErrorDetail } from '#core/domain/app-error.ts';
import { canonicalJson } from './idempotency.ts';

/** Known fields of an object, and how to go on below them. Null: the value is the caller's own, keys and all. */
export type Spelling = ObjectSpelling | { readonly items: Spelling } | null;
type ObjectSpelling = { readonly fields: ReadonlyMap<string, Field> };
/** Under each of its spellings. */
type Field = { readonly name: string; readonly below: Spelling };

type Def = {
  readonly type: string;
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly element?: z.ZodType;
  readonly innerType?: z.ZodType;
  readonly in?: z.ZodType;
  readonly options?: readonly z.ZodType[];
};

/** Reads from a schema which fields it knows. Maps of free keys (records) are left alone. */
export function spellingOf(schema: z.ZodType): Spelling {
  const def = schema.def as unknown as Def;
  if (def.shape !== undefined) {
    return fieldsOf(Object.entries(def.shape).map(([name, inner]) => ({ name, below: spellingOf(inner) })));
  }
  if (def.element !== undefined) {
    const items = spellingOf(def.element);
    return items === null ? null : { items };
  }
  if (def.options !== undefined) return merged(def.options.map(spellingOf));
  const inner = def.innerType ?? def.in;
  return inner === undefined ? null : spellingOf(inner);
}

/** A union knows the fields of all its members. */
function merged(spellings: readonly Spelling[]): Spelling {
  const fields = new Map<string, Field>();
  for (const spelling of spellings) {
    if (spelling === null || !('fields' in spelling)) continue;
    for (const field of spelling.fields.values()) {
      if (fields.get(field.name)?.below == null) fields.set(field.name, field);
    }
  }
  return fields.size === 0 ? null : fieldsOf([...fields.values()]);
}

function fieldsOf(fields: readonly Field[]): ObjectSpelling {
  return {
    fields: new Map(
      fields.flatMap((field) => [
        [field.name, field],
        [snakeCase(field.name), field],
      ]),
    ),
  };
}

/**
 * Gives known fields their camelCase name and drops unknown ones.
 * @throws AppError where both spellings of a field are there with different values.
 */
export function respell(spelling: Spelling, value: unknown): unknown {
  const conflicts: ErrorDetail[] = [];
  const respelled = walk(spelling, value, '', conflicts);
  if (conflicts.length > 0) throw validationFailed(...conflicts);
  return respelled;
}

function walk(spelling: Spelling, value: unknown, path: string, conflicts: ErrorDetail[]): unknown {
  if (spelling === null || typeof value !== 'object' || value === null) return value;
  if ('items' in spelling) {
    return Array.isArray(value)
      ? value.map((item, i) => walk(spelling.items, item, `${path}${i}.`, conflicts))
      : value;
  }
  if (Array.isArray(value)) return value;
  const known: Record<string, unknown> = {};
  for (const [sentName, inner] of Object.entries(value)) {
    const field = spelling.fields.get(sentName);
    if (field === undefined || inner === undefined) continue;
    const { name, below } = field;
    const one = walk(below, inner, `${path}${name}.`, conflicts);
    if (Object.hasOwn(known, name) && canonicalJson(one) !== canonicalJson(known[name])) {
      const message = 'Both spellings of the field are present with different values';
      conflicts.push({ field: path + name, rule: 'conflict', message });
    }
    known[name] = one;
  }
  return known;
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
