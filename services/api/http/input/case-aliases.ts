import type { z } from 'zod';
import { validationFailed, type ErrorDetail } from '#core/domain/fault/app-error.ts';
import { unknownField, type Warning } from '#core/domain/fault/warning.ts';
import { ALIASES } from './fields.ts';
import { canonicalJson } from '../routes/idempotency.ts';
import { partsOf, shapeOf } from './schema-parts.ts';

/** The known fields of an object and the aliases below them. Null: the value is free-form, so its keys are kept. */
export type CaseAliases = ObjectAliases | { readonly items: CaseAliases } | null;
type ObjectAliases = {
  /** Indexed by each of their spellings. */
  readonly fields: ReadonlyMap<string, Field>;
  /** Set when the value of one field decides which other fields are valid. */
  readonly variants?: Variants;
};
type Field = {
  readonly name: string;
  /** A second name that is accepted for the field. */
  readonly alias: string | undefined;
  readonly below: CaseAliases;
};
type Variants = {
  readonly by: string;
  /** The valid field names for each value. */
  readonly names: ReadonlyMap<unknown, ReadonlySet<string>>;
};

/** Reads the known fields from a schema. Maps with free keys (records) are left unchanged. */
export function caseAliasesOf(schema: z.ZodType): CaseAliases {
  const parts = partsOf(schema);
  switch (parts.kind) {
    case 'object':
      return fieldsOf(
        Object.entries(parts.shape).map(([name, inner]) => ({
          name,
          alias: aliasOf(inner),
          below: caseAliasesOf(inner),
        })),
      );
    case 'list': {
      const items = caseAliasesOf(parts.element);
      return items === null ? null : { items };
    }
    case 'union': {
      const { options, discriminator } = parts;
      const union = merged(options.map(caseAliasesOf));
      return discriminator === undefined || union === null
        ? union
        : { ...union, variants: variantsOf(options, discriminator) };
    }
    case 'wrapped':
    case 'piped':
      return caseAliasesOf(parts.inner);
    case 'map':
    case 'value':
      return null;
  }
}

/** A union has the fields of all its members. */
function merged(all: readonly CaseAliases[]): ObjectAliases | null {
  const fields = new Map<string, Field>();
  for (const aliases of all) {
    if (aliases === null || !('fields' in aliases)) continue;
    for (const field of aliases.fields.values()) {
      if (fields.get(field.name)?.below == null) fields.set(field.name, field);
    }
  }
  return fields.size === 0 ? null : fieldsOf([...fields.values()]);
}

function fieldsOf(fields: readonly Field[]): ObjectAliases {
  return {
    fields: new Map(
      fields.flatMap((field) =>
        [field.name, field.alias]
          .filter((name) => name !== undefined)
          .flatMap((name): [string, Field][] => [
            [name, field],
            [snakeCase(name), field],
          ]),
      ),
    ),
  };
}

/** The alias is kept when the schema is made optional or given a default. */
function aliasOf(schema: z.ZodType): string | undefined {
  const parts = partsOf(schema);
  return ALIASES.get(schema)?.alias ?? (parts.kind === 'wrapped' ? aliasOf(parts.inner) : undefined);
}

function variantsOf(options: readonly z.ZodType[], by: string): Variants {
  const names = new Map<unknown, ReadonlySet<string>>();
  for (const option of options) {
    const shape = shapeOf(option);
    const literal = shape[by] && partsOf(shape[by]);
    const values = literal?.kind === 'value' ? literal.values : [];
    for (const value of values) names.set(value, new Set(Object.keys(shape)));
  }
  return { by, names };
}

/** Returns the names of a schema's fields by their spellings; none where it is free-form. */
export function fieldNamesOf(schema: z.ZodType): FieldNames {
  const aliases = caseAliasesOf(schema);
  if (aliases === null || !('fields' in aliases)) return NO_NAMES;
  return new Map(Array.from(aliases.fields, ([spelling, { name }]) => [spelling, name]));
}

export type FieldNames = ReadonlyMap<string, string>;
export const NO_NAMES: FieldNames = new Map();

export type Resolved = {
  readonly value: unknown;
  /** Warnings about dropped fields, likely typos first. */
  readonly warnings: readonly Warning[];
};

export type ResolveOptions = {
  /** How a null as the value of a known field is treated: as an absent field, or as a request to clear it. */
  readonly nulls?: 'absent' | 'kept';
  readonly kind?: 'field' | 'query parameter';
  /** Fields of the resource that the request does not take: their values stay as they are. */
  readonly fixed?: FieldNames;
};

/**
 * Renames known fields to camelCase and drops all others: unknown fields, and fields that the object's variant does not
 * have.
 * @throws AppError when both spellings of a field are present with different values.
 */
export function resolveAliases(aliases: CaseAliases, value: unknown, options: ResolveOptions = {}): Resolved {
  const walk = new Walk(options);
  const resolved = walk.visit(aliases, value, '');
  if (walk.conflicts.length > 0) throw validationFailed(...walk.conflicts);
  return { value: resolved, warnings: walk.warnings() };
}

/** Returns the fault of a field that is present in two spellings, with different values. */
export function conflictAt(field: string): ErrorDetail {
  const message = 'Both spellings of the field are present with different values';
  return { field, rule: 'conflict', message };
}

/** A body can contain tens of thousands of unknown fields; a search for a similar known name costs time for each. */
const LOOKED_AT_MAX = 50;
/** Placeholder for warnings that are only counted: an answer lists fewer. */
const ONE_MORE: Warning = { field: 'body', message: 'Unknown field, ignored' };

class Walk {
  readonly conflicts: ErrorDetail[] = [];
  readonly #nulls: 'absent' | 'kept';
  readonly #kind: 'field' | 'query parameter';
  readonly #fixed: FieldNames;
  readonly #near: Warning[] = [];
  readonly #others: Warning[] = [];
  #ignored = 0;

  constructor({ nulls = 'absent', kind = 'field', fixed = NO_NAMES }: ResolveOptions) {
    this.#nulls = nulls;
    this.#kind = kind;
    this.#fixed = fixed;
  }

  warnings(): readonly Warning[] {
    return this.#ignored === 0 ? NO_WARNINGS : [...this.#near, ...this.#others];
  }

  visit(aliases: CaseAliases, value: unknown, path: string): unknown {
    if (aliases === null || typeof value !== 'object' || value === null) return value;
    if ('items' in aliases) {
      return Array.isArray(value)
        ? value.map((item, i) => this.visit(aliases.items, item, `${path}${i}.`))
        : value;
    }
    return Array.isArray(value) ? value : this.#visitObject(aliases, value, path);
  }

  #visitObject(aliases: ObjectAliases, sent: object, path: string): object {
    const variant = variantOf(aliases, sent);
    const known: Record<string, unknown> = {};
    for (const [sentName, inner] of Object.entries(sent)) {
      const field = aliases.fields.get(sentName);
      if (inner === undefined || (inner === null && (field === undefined || this.#nulls === 'absent')))
        continue;
      if (field === undefined || (variant !== undefined && !variant.names.has(field.name))) {
        this.#ignore(path, sentName, aliases, field, variant);
        continue;
      }
      const { name, below } = field;
      const one = this.visit(below, inner, `${path}${name}.`);
      if (Object.hasOwn(known, name) && canonicalJson(one) !== canonicalJson(known[name])) {
        this.conflicts.push(conflictAt(path + name));
      }
      known[name] = one;
    }
    return known;
  }

  #ignore(
    path: string,
    sentName: string,
    { fields }: ObjectAliases,
    field: Field | undefined,
    variant: Variant | undefined,
  ): void {
    this.#ignored += 1;
    if (field !== undefined && variant !== undefined) {
      const message = `Ignored: does not belong to ${variant.by} '${variant.value}'`;
      this.#others.push({ field: path + field.name, message });
    } else if (this.#ignored > LOOKED_AT_MAX) {
      this.#others.push(ONE_MORE);
    } else {
      const names = variant?.names ?? new Set(Array.from(fields.values(), ({ name }) => name));
      const { warning, isNear } = unknownField(path, sentName, [...names], this.#kind);
      const fixed = path === '' && !isNear ? this.#fixed.get(sentName) : undefined;
      if (isNear) this.#near.push(warning);
      else this.#others.push(fixed === undefined ? warning : fixedField(fixed));
    }
  }
}

const NO_WARNINGS: readonly Warning[] = [];

function fixedField(field: string): Warning {
  return { field, message: 'Ignored: this request cannot change it' };
}

type Variant = { readonly by: string; readonly value: string; readonly names: ReadonlySet<string> };

/** Undefined when the object has no variants, or when the deciding value is missing or invalid. */
function variantOf({ variants }: ObjectAliases, sent: object): Variant | undefined {
  if (variants === undefined) return undefined;
  const { by } = variants;
  const value = (sent as Record<string, unknown>)[by];
  const names = variants.names.get(value);
  return names === undefined ? undefined : { by, value: String(value), names };
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
