type JsonSchema = { readonly $defs?: Readonly<Record<string, unknown>> };

const REFERENCE = '#/$defs/';

/**
 * The schema with what it refers to in its place. Schemas with a name in the OpenAPI document are references to definitions,
 * which is no use where a schema stands by itself. None of them may contain itself.
 */
export function standaloneSchema({ $defs = {}, ...schema }: JsonSchema): Record<string, unknown> {
  const resolve = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(resolve);
    if (typeof part !== 'object' || part === null) return part;
    const { $ref, ...rest } = part as { readonly $ref?: unknown };
    const own = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, resolve(value)]));
    if (typeof $ref !== 'string' || !$ref.startsWith(REFERENCE)) return { ...part, ...own };
    return { ...(resolve($defs[$ref.slice(REFERENCE.length)]) as object), ...own };
  };
  return resolve(schema) as Record<string, unknown>;
}
