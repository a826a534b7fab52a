import type { z } from 'zod';

/** A column of `kubectl get`. */
export type PrinterColumn = {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date';
  readonly description: string;
  readonly jsonPath: string;
  /** 0 (default): always shown; 1: only with `-o wide`. */
  readonly priority?: 0 | 1;
};

/** The complete description of a kind; its CustomResourceDefinition is generated from this alone. */
export type CustomResource = {
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly scope: 'Namespaced' | 'Cluster';
  /** Schema of the whole object: `apiVersion`, `kind`, `metadata`, `spec` and `status`. */
  readonly schema: z.ZodObject;
  readonly columns: readonly PrinterColumn[];
  /** Fields that lists and watches can filter by, in addition to name and namespace. */
  readonly selectableFields: readonly string[];
};
