import type { z } from 'zod';

/** A column of `kubectl get`. */
export type PrinterColumn = {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date';
  readonly description: string;
  readonly jsonPath: string;
  /** 0, the default: always shown; 1: with `-o wide` only. */
  readonly priority?: 0 | 1;
};

/** Everything that is to be known about a kind; its CustomResourceDefinition is made from this and from nothing else. */
export type CustomResource = {
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly scope: 'Namespaced' | 'Cluster';
  /** Of the whole object: `apiVersion`, `kind`, `metadata`, `spec` and `status`. */
  readonly schema: z.ZodObject;
  readonly columns: readonly PrinterColumn[];
  /** Fields that lists and watches can be narrowed by, beside name and namespace. */
  readonly selectableFields: readonly string[];
};
