import { isMap, isScalar, parse, parseDocument, type Pair, type YAMLMap } from 'yaml';

/** One value of the chart's `values.yaml`. */
export type ChartValue = {
  readonly key: string;
  /** Keys from the root, joined with dots. */
  readonly path: string;
  /** Heading of the section that begins with this value. */
  readonly section: string | undefined;
  /** The comment above it, as one line. */
  readonly description: string;
  /** What `@schema` adds to the schema derived from the default. */
  readonly narrowing: Readonly<Record<string, unknown>>;
  readonly default: unknown;
  /** The nested values, if the chart knows all of them; undefined for a value that is passed through unchanged. */
  readonly children: readonly ChartValue[] | undefined;
};

/**
 * Returns the values of a `values.yaml` in file order. A comment belongs to the key below it: lines that begin with
 * `@schema` contain JSON Schema as a YAML flow map, a paragraph that begins with `--` is a heading, and the rest is the
 * description. A map whose `@schema` names a type is passed through, and so are flow maps.
 */
export function readValueTree(text: string): ChartValue[] {
  const document = parseDocument(text, { version: '1.2' });
  if (document.errors[0] !== undefined) throw document.errors[0];
  if (!isMap(document.contents)) throw new Error('values.yaml holds no map');
  const root = document.contents;
  return readMap(root, '', root.commentBefore ?? document.commentBefore ?? '');
}

function readMap(map: YAMLMap, prefix: string, firstComment: string): ChartValue[] {
  return map.items.map((pair, position) => {
    const own = commentOf(pair);
    // The YAML library attaches the comment above the first key to the enclosing map.
    return readPair(pair, prefix, own === '' && position === 0 ? firstComment : own);
  });
}

function readPair({ key, value }: Pair, prefix: string, comment: string): ChartValue {
  const name = isScalar(key) ? String(key.value) : String(key);
  const path = prefix === '' ? name : `${prefix}.${name}`;
  const { section, description, narrowing } = readComment(comment, path);
  const isPassedOn = 'type' in narrowing || 'additionalProperties' in narrowing;
  const isTree = isMap(value) && value.items.length > 0 && value.flow !== true && !isPassedOn;
  return {
    key: name,
    path,
    section,
    description,
    narrowing,
    default: (value as { toJSON(): unknown } | null)?.toJSON() ?? null,
    children: isTree ? readMap(value, path, value.commentBefore ?? '') : undefined,
  };
}

function commentOf({ key }: Pair): string {
  return isScalar(key) ? (key.commentBefore ?? '') : '';
}

function readComment(
  comment: string,
  path: string,
): Pick<ChartValue, 'section' | 'description' | 'narrowing'> {
  let section: string | undefined;
  const described: string[] = [];
  let narrowing: Record<string, unknown> = {};
  for (const paragraph of comment.split(/\n\s*\n/)) {
    const lines = paragraph
      .trim()
      .split('\n')
      .map((line) => line.trim());
    // Only the last paragraph describes the key; earlier ones are headings and the file's own header.
    described.length = 0;
    if (lines[0]?.startsWith('-- ')) {
      section = lines.join(' ').slice('-- '.length);
      continue;
    }
    for (const line of lines) {
      if (!line.startsWith('@schema ')) described.push(line);
      else narrowing = { ...narrowing, ...parseNarrowing(line.slice('@schema '.length), path) };
    }
  }
  return { section, description: described.join(' ').trim(), narrowing };
}

function parseNarrowing(text: string, path: string): Record<string, unknown> {
  const parsed: unknown = parse(text);
  if (typeof parsed !== 'object' || parsed === null) throw new Error(`${path}: @schema must be a flow map`);
  return parsed as Record<string, unknown>;
}
