import type { z } from 'zod';

/** What a schema consists of, for code that walks through the schemas of inputs. */
export type SchemaParts =
  | { readonly kind: 'object'; readonly shape: Readonly<Record<string, z.ZodType>> }
  | { readonly kind: 'list'; readonly element: z.ZodType; readonly lengthMax: number }
  /** A record: its keys are free. */
  | { readonly kind: 'map' }
  | {
      readonly kind: 'union';
      readonly options: readonly z.ZodType[];
      readonly discriminator: string | undefined;
    }
  /** Made optional or nullable, or given a default. */
  | { readonly kind: 'wrapped'; readonly inner: z.ZodType }
  /** Transformed after it was parsed. */
  | { readonly kind: 'piped'; readonly inner: z.ZodType }
  /** `values`: of a literal. */
  | { readonly kind: 'value'; readonly type: string; readonly values: readonly unknown[] };

/** Zod's definition of a schema; which fields it has depends on its type. */
type Def = {
  readonly type: string;
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly element?: z.ZodType;
  readonly checks?: readonly Check[];
  readonly options?: readonly z.ZodType[];
  readonly discriminator?: string;
  readonly innerType?: z.ZodType;
  readonly in?: z.ZodType;
  readonly values?: readonly unknown[];
};
type Check = { readonly _zod: { readonly def: { readonly check: string; readonly maximum?: number } } };

export function partsOf(schema: z.ZodType): SchemaParts {
  const def = schema.def as unknown as Def;
  if (def.shape !== undefined) return { kind: 'object', shape: def.shape };
  if (def.element !== undefined) {
    return { kind: 'list', element: def.element, lengthMax: Math.min(...(def.checks ?? []).map(lengthMax)) };
  }
  if (def.type === 'record') return { kind: 'map' };
  if (def.options !== undefined) {
    return { kind: 'union', options: def.options, discriminator: def.discriminator };
  }
  if (def.innerType !== undefined) return { kind: 'wrapped', inner: def.innerType };
  if (def.in !== undefined) return { kind: 'piped', inner: def.in };
  return { kind: 'value', type: def.type, values: def.values ?? [] };
}

/** Returns the fields of an object; none for another schema. */
export function shapeOf(schema: z.ZodType): Readonly<Record<string, z.ZodType>> {
  const parts = partsOf(schema);
  return parts.kind === 'object' ? parts.shape : {};
}

function lengthMax({ _zod: { def } }: Check): number {
  return def.check === 'max_length' ? (def.maximum ?? Infinity) : Infinity;
}
