import { z } from 'zod';
import { createWarnings, type Warning, type Warnings } from '#core/domain/warning.ts';

/** Belongs to every answer of a request that is read: what was sent and had no effect. */
export const warningsField = {
  warnings: z
    .array(
      z
        .object({ field: z.string(), message: z.string().describe('For people; may change.') })
        .meta({ id: 'Warning', description: 'Something that was sent and had no effect.' }),
    )
    .optional()
    .describe(
      'What was sent and had no effect, such as unknown fields. Absent where there is nothing to say.',
    ),
};

/** Of parts of requests, from where they are read to where they are answered. */
const found = new WeakMap<object, readonly Warning[]>();

export function rememberWarnings(parsed: object, warnings: readonly Warning[]): void {
  if (warnings.length > 0) found.set(parsed, warnings);
}

/** A collector that holds what was found while these parts were read. */
export function warningsOf(...parts: readonly unknown[]): Warnings {
  const warnings = createWarnings();
  for (const part of parts) {
    if (typeof part !== 'object' || part === null) continue;
    for (const warning of found.get(part) ?? []) warnings.add(warning);
  }
  return warnings;
}

/** The body of an answer, with the warnings where there are some. */
export function withWarnings<Body>(body: Body, warnings: Warnings): Body {
  const list = warnings.list();
  const canHold = typeof body === 'object' && body !== null && !Array.isArray(body);
  return list.length === 0 || !canHold ? body : { ...body, warnings: list };
}
