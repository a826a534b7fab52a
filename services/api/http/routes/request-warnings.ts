import { z } from 'zod';
import { createWarnings, type Warnings } from '#core/domain/fault/warning.ts';
import { inputOf } from '../input/parsed-input.ts';

/** Part of every answer to a parsed request: names input that had no effect. */
export const warningsField = {
  warnings: z
    .array(
      z
        .object({ field: z.string(), message: z.string().describe('For people; may change.') })
        .meta({ id: 'Warning', description: 'A part of the request that had no effect.' }),
    )
    .optional()
    .describe('Parts of the request that had no effect, such as unknown fields. Absent if there are none.'),
};

/** Returns a collector with the warnings found while these parts were parsed. */
export function warningsOf(...parts: readonly unknown[]): Warnings {
  const warnings = createWarnings();
  for (const part of parts) {
    for (const warning of inputOf(part).warnings) warnings.add(warning);
  }
  return warnings;
}

/** Returns the body of an answer, with the warnings if there are any. */
export function withWarnings<Body>(body: Body, warnings: Warnings): Body {
  const list = warnings.list();
  const canHold = typeof body === 'object' && body !== null && !Array.isArray(body);
  return list.length === 0 || !canHold ? body : { ...body, warnings: list };
}
