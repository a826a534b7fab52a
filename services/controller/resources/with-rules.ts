import type { z } from 'zod';

/** A rule over several fields, told twice: to the API server in CEL, and in code to whoever reads objects without one. */
export type Rule<Value> = {
  /** CEL over `self`. */
  readonly rule: string;
  /** What to do about it, as the API server says it to the writer. */
  readonly message: string;
  /** The field at fault, from where the rule stands, such as `.suspendReason`. */
  readonly fieldPath?: string;
  /** Whether the value keeps the rule. Absent for a rule that compares with the object's last version. */
  readonly holds?: (value: Value) => boolean;
};

/** The schema with its rules: checked when it parses, and part of the structural schema made from it. */
export function withRules<Schema extends z.ZodType>(
  schema: Schema,
  rules: readonly Rule<z.output<Schema>>[],
): Schema {
  const checked = rules.reduce<Schema>(
    (checked, { holds, message }) => (holds === undefined ? checked : checked.refine(holds, { message })),
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

/** A list of names as CEL spells it. */
export function celList(names: readonly string[]): string {
  return `[${names.map((name) => `'${name}'`).join(', ')}]`;
}
