import { z } from 'zod';
import type { CustomResource } from './custom-resource.ts';

/** A node of the schema with which the API server prunes, defaults and validates. */
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
 * Returns the structural schema of a kind for writers of objects: fields with a default are optional. The API server
 * validates `metadata` itself and allows a schema to state nothing but its type.
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
    // The API server requires the other three itself, and a field with a default is never missing.
    required: (root.required ?? []).filter((name) => name === 'spec'),
  };
}
