type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** One changed field. `from` and `to` are absent if the values must not be disclosed. */
export type AuditChange = { readonly field: string; readonly from?: Json; readonly to?: Json };

/** Bounds the size of an entry, however much was changed. */
const CHANGES_MAX = 50;
const CHARACTERS_MAX = 200;

/**
 * Returns the differences between two states of an object; an absent field counts as null.
 * @param isSecret whether the values of a field must not be disclosed.
 */
export function auditChanges(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  isSecret: (field: string) => boolean = () => false,
): AuditChange[] {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changed = fields.flatMap((field): AuditChange[] => {
    const [from, to] = [told(before[field]), told(after[field])];
    // Compares the full values, because two long values may have the same beginning.
    if (textOf(before[field]) === textOf(after[field])) return [];
    const name = cut(field);
    return [isSecret(field) ? { field: name } : { field: name, from, to }];
  });
  return changed.slice(0, CHANGES_MAX);
}

function textOf(value: unknown): string {
  return JSON.stringify(value ?? null);
}

/** Returns the value itself, or the beginning of its JSON if that is long. */
function told(value: unknown): Json {
  const text = textOf(value);
  return text.length <= CHARACTERS_MAX ? (JSON.parse(text) as Json) : cut(text);
}

function cut(text: string): string {
  return text.length <= CHARACTERS_MAX ? text : `${text.slice(0, CHARACTERS_MAX).toWellFormed()}…`;
}
