import { z } from 'zod';
import { AllLimits } from '../../services/controller/resources/limit-fields.ts';

/**
 * Returns the JSON Schema of a plan's limits, with the same fields and bounds as the definition of a Plan: the chart must
 * refuse what its template could only turn into another number.
 */
export function planLimitsSchema(): Readonly<Record<string, unknown>> {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(AllLimits, { io: 'input', target: 'draft-07' });
  return { ...schema, additionalProperties: false };
}
