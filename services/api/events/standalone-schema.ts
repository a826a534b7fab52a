type JsonSchema = { readonly $defs?: Readonly<Record<string, unknown>> };

const REFERENCE = '#/$defs/';

/**
 * Returns the schema with its references inlined. Schemas with a name in the OpenAPI document are references to
 * definitions, which do not resolve in a schema that is served alone. Recursive schemas are not supported.
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
