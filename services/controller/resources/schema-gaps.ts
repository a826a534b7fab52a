import type { StructuralSchema } from './structural-schema.ts';

/**
 * Returns what a schema leaves open, as `path: what is missing`. Every field that a client may store needs a description,
 * for `kubectl explain`, and bounds: an unbounded field allows objects of any size and validation rules of unbounded cost.
 */
export function schemaGaps(schema: StructuralSchema): string[] {
  const fields = schema.properties ?? {};
  return [
    ...describe(schema, ''),
    ...['spec', 'status'].flatMap((name) => {
      const field = fields[name];
      return field === undefined ? [`.${name}: is absent`] : gapsOf(field, `.${name}`);
    }),
  ];
}

function gapsOf(node: StructuralSchema, path: string): string[] {
  return [...describe(node, path), ...typeGaps(node, path), ...openGaps(node, path), ...children(node, path)];
}

function describe(node: StructuralSchema, path: string): string[] {
  return node.description === undefined || node.description === ''
    ? [`${path || '.'}: has no description`]
    : [];
}

function typeGaps(node: StructuralSchema, path: string): string[] {
  const lacking = (...names: string[]): string[] =>
    names.filter((name) => node[name] === undefined).map((name) => `${path}: has no ${name}`);
  switch (node.type) {
    case 'string':
      return node.enum === undefined ? lacking('maxLength') : [];
    case 'integer':
      return [...lacking('minimum', 'maximum'), ...unsafe(node, path)];
    case 'number':
      return [`${path}: is a fraction, which two readers may round differently`];
    case 'boolean':
      return [`${path}: is a boolean, which leaves no room for a third state`];
    case 'array':
      return [...lacking('maxItems', 'items'), ...listGaps(node, path)];
    case 'object':
      if (node.properties !== undefined) return [];
      return node.additionalProperties === undefined
        ? [`${path}: has neither properties nor additionalProperties`]
        : lacking('maxProperties');
    case undefined:
      return [`${path}: has no type`];
    default:
      return [`${path}: is of the unknown type ${node.type}`];
  }
}

function unsafe({ minimum, maximum }: StructuralSchema, path: string): string[] {
  const isSafe = [minimum, maximum].every((bound) => bound === undefined || Number.isSafeInteger(bound));
  return isSafe ? [] : [`${path}: is not kept exactly by a reader with floating-point numbers`];
}

function listGaps(node: StructuralSchema, path: string): string[] {
  const kind = node['x-kubernetes-list-type'];
  if (kind === undefined) return [`${path}: has no x-kubernetes-list-type`];
  return kind === 'map' && node['x-kubernetes-list-map-keys'] === undefined
    ? [`${path}: has no x-kubernetes-list-map-keys`]
    : [];
}

/** Finds keywords that allow any value. */
function openGaps(node: StructuralSchema, path: string): string[] {
  return ['x-kubernetes-preserve-unknown-fields', 'x-kubernetes-int-or-string', 'nullable']
    .filter((name) => node[name] !== undefined)
    .map((name) => `${path}: has ${name}`);
}

function children(node: StructuralSchema, path: string): string[] {
  return [
    ...Object.entries(node.properties ?? {}).flatMap(([name, field]) => gapsOf(field, `${path}.${name}`)),
    ...(node.items === undefined ? [] : gapsOf(node.items, `${path}[]`)),
    ...(node.additionalProperties === undefined ? [] : gapsOf(node.additionalProperties, `${path}{}`)),
  ];
}
