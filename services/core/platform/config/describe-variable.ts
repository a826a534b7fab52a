import { z } from 'zod';

/** A configuration variable: its rule and its notes for the reference table. */
export type Variable<T = unknown> = z.ZodType<T>;

/** What the reference table shows about a variable. */
export type VariableDescription = {
  readonly description: string;
  readonly type: string;
  /** As Markdown. */
  readonly default?: string;
  readonly isOptional: boolean;
  /** Whether the variable is a secret, which may also come from the file that `<NAME>_FILE` names. */
  readonly secret: boolean;
};

export type Notes = {
  description: string;
  type: string;
  default?: string;
  secret?: boolean;
};

export function describeVariable(variable: Variable): VariableDescription {
  const notes = (variable.meta() ?? {}) as Partial<Notes>;
  return {
    description: notes.description ?? '',
    type: notes.type ?? 'text',
    ...(notes.default === undefined ? {} : { default: `\`${notes.default}\`` }),
    isOptional: variable.safeParse(undefined).success,
    secret: notes.secret ?? false,
  };
}
