import { z } from 'zod';
import { generation, text, timestamp } from './fields.ts';

/** One condition in the standard Kubernetes format. `type` is unique among an object's conditions. */
export const Condition = z
  .object({
    type: text({
      description: 'Name of the condition, in CamelCase.',
      max: 64,
      pattern: /^[A-Z][A-Za-z0-9]*$/,
    }),
    status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'Whether the condition holds.' }),
    observedGeneration: generation('Generation of the spec that this condition describes.'),
    lastTransitionTime: timestamp('When `status` last changed.'),
    reason: text({
      description: 'Why the condition has its status, in one CamelCase word for programs.',
      max: 64,
      pattern: /^[A-Z][A-Za-z0-9]*$/,
    }),
    message: text({
      description: 'The same for people. Never holds a secret; may be empty.',
      min: 0,
      max: 2_048,
    }),
  })
  .meta({ description: 'One fact about the object.' });
export type Condition = z.output<typeof Condition>;

/** A list of conditions that several writers may share; each one owns its types. */
export function conditions(description: string): z.ZodArray<typeof Condition> {
  return z
    .array(Condition)
    .max(16)
    .meta({ description, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] });
}
