import { z } from 'zod';
import type { CustomResource } from './custom-resource.ts';

/** A node of the schema that the API server prunes, defaults and validates by. */
export type StructuralSchema = {
  readonly type?: string;
  readonly description?: string;
  readonly format?: string;
  readonly pattern?: string;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly properties?: Readonly<Record<string, StructuralSchema>>;
  readonly items?: StructuralSchema;
  readonly additionalProperties?: StructuralSchema;
  readonly required?: readonly string[];
  readonly [other: string]: unknown;
};

/**
 * The structural schema of a kind, as a writer of objects sees it: what has a default may be left out. The API server
 * knows `metadata` better than we do and allows nothing to be said about it but its type.
 */
export function structuralSchema({ schema }: CustomResource): StructuralSchema {
  const { properties, ...root } = z.toJSONSchema(schema, {
    io: 'input',
    target: 'openapi-3.0',
  }) as StructuralSchema;
  return {
    ...root,
    properties: {
      ...properties,
      apiVersion: { type: 'string', description: 'Version of the schema of this object.' },
      kind: { type: 'string', description: 'Kind of this object.' },
      metadata: { type: 'object' },
    },
    // The API server demands the other three by itself; what has a default is never missing.
    required: (root.required ?? []).filter((name) => name === 'spec'),
  };
}
