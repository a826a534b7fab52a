import { z } from 'zod';

/** Returns the example in a schema's meta; undefined without one. */
export function exampleOf(schema: unknown): unknown {
  const { examples } = (schema instanceof z.ZodType ? schema.meta() : undefined) ?? {};
  return (examples as readonly unknown[] | undefined)?.[0];
}
