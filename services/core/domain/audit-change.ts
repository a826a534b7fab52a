type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** One field of a change. Without `from` and `to` where its values are nobody's business. */
export type AuditChange = { readonly field: string; readonly from?: Json; readonly to?: Json };

/** An entry stays small, whatever was changed. */
const CHANGES_MAX = 50;
const CHARACTERS_MAX = 200;

/**
 * What differs between two states of the same thing; an absent field is null.
 * @param isSecret Says of a field that its values are not to be told.
 */
export function auditChanges(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  isSecret: (field: string) => boolean = () => false,
): AuditChange[] {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changed = fields.flatMap((field): AuditChange[] => {
    const [from, to] = [told(before[field]), told(after[field])];
    // Compared whole: two long values may begin alike.
    if (textOf(before[field]) === textOf(after[field])) return [];
    const name = cut(field);
    return [isSecret(field) ? { field: name } : { field: name, from, to }];
  });
  return changed.slice(0, CHANGES_MAX);
}

function textOf(value: unknown): string {
  return JSON.stringify(value ?? null);
}

/** A value as it is, or the beginning of its text where it is long. */
function told(value: unknown): Json {
  const text = textOf(value);
  return text.length <= CHARACTERS_MAX ? (JSON.parse(text) as Json) : cut(text);
}

function cut(text: string): string {
  return text.length <= CHARACTERS_MAX ? text : `${text.slice(0, CHARACTERS_MAX).toWellFormed()}…`;
}
