/** The parts of a JSON Schema property that the account schemas use. */
type Property = {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly description?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly pattern?: string;
  readonly format?: string;
};

export type SettingRow = {
  readonly name: string;
  /** Type, bounds and default as a sentence; a pattern is in backquotes. */
  readonly form: string;
  readonly description: string;
};

/** Returns the properties of an object from its JSON Schema, in schema order. */
export function settingRows(schema: Readonly<Record<string, unknown>>): SettingRow[] {
  const properties = (schema['properties'] ?? {}) as Readonly<Record<string, Property>>;
  const required = new Set((schema['required'] ?? []) as readonly string[]);
  return Object.entries(properties).map(([name, property]) => ({
    name,
    form: formOf(property, required.has(name)),
    description: property.description ?? '',
  }));
}

function formOf(property: Property, isRequired: boolean): string {
  const { minLength, maxLength, minimum, maximum, pattern, format } = property;
  const parts = [
    typeOf(property),
    isRequired ? 'required' : 'optional',
    property.default === undefined ? undefined : `default ${JSON.stringify(property.default)}`,
    bounds(minLength, maxLength, ' characters'),
    bounds(minimum, maximum, ''),
    format,
    // A mail address is described by its format; its pattern is unreadable.
    pattern === undefined || format !== undefined ? undefined : `\`${pattern}\``,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

function typeOf({ type, enum: values }: Property): string {
  return values === undefined ? (type ?? 'object') : values.map(String).join(' | ');
}

function bounds(least: number | undefined, most: number | undefined, unit: string): string | undefined {
  if (least !== undefined && most !== undefined) return `${least} to ${most}${unit}`;
  if (most !== undefined) return `at most ${most}${unit}`;
  return least === undefined ? undefined : `at least ${least}${unit}`;
}
