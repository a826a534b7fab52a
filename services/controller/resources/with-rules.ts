import type { z } from 'zod';

/**
 * A rule over several fields, stated twice: in CEL for the API server, and in code for readers of objects that did not pass
 * through one.
 */
export type Rule<Value> = {
  /** CEL over `self`. */
  readonly rule: string;
  /** How to fix a violation; the API server shows it to the writer. */
  readonly message: string;
  /** The faulty field, relative to the rule's place, such as `.suspendReason`. */
  readonly fieldPath?: string;
  /** Returns whether the value satisfies the rule. Absent for a rule that compares with the object's previous version. */
  readonly holds?: (value: Value) => boolean;
};

/** Returns the schema with its rules: checked on parsing, and included in the generated structural schema. */
export function withRules<Schema extends z.ZodType>(
  schema: Schema,
  rules: readonly Rule<z.output<Schema>>[],
): Schema {
  const checked = rules.reduce<Schema>(
    (checked, { holds, message }) => (holds === undefined ? checked : checked.refine(holds, message)),
    schema,
  );
  return checked.meta({
    ...schema.meta(),
    'x-kubernetes-validations': rules.map(({ rule, message, fieldPath }) => ({
      rule,
      message,
      ...(fieldPath === undefined ? {} : { fieldPath }),
    })),
  });
}

/** Formats a list of names in CEL. */
export function celList(names: readonly string[]): string {
  return `[${names.map((name) => `'${name}'`).join(', ')}]`;
}
