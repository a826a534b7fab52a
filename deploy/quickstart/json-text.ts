/** Helpers for parsed JSON of any type: each one returns the expected part, or an empty one. */

export function parseObject(json: string): Record<string, unknown> {
  try {
    return asObject(JSON.parse(json));
  } catch {
    return {};
  }
}

export function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

export function asList(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.map(asObject) : [];
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
