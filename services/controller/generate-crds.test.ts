import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { generateCrds } from './generate-crds.ts';
import type { CustomResource } from './resources/custom-resource.ts';
import { CUSTOM_RESOURCES } from './resources/custom-resources.ts';

/** Renders a template as Helm would, without the metadata. */
function rendered(text: string): unknown {
  return parse(
    text
      .split('\n')
      .filter((line) => !/^\s*\{\{-? /.test(line))
      .join('\n')
      .replaceAll('{{ "{{" }}', '{{'),
  );
}

test('every kind has a manifest and an equivalent Helm chart template', () => {
  const files = new Map(generateCrds().map(({ path, text }) => [path, text]));
  expect(files.size).toBe(2 * CUSTOM_RESOURCES.length);
  for (const { kind, plural } of CUSTOM_RESOURCES) {
    const plain = parse(files.get(`crds/despatch.dev_${plural}.yaml`) ?? '') as { spec: unknown };
    const template = files.get(`charts/despatch/templates/crds/${plural}.yaml`) ?? '';
    expect(plain).toMatchObject({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${plural}.despatch.dev` },
      spec: { group: 'despatch.dev', names: { kind }, versions: [{ name: 'v1alpha1' }] },
    });
    expect(rendered(template)).toEqual({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: null,
      spec: plain.spec,
    });
    expect(template).toContain('{{- if .Values.crds.enabled }}');
    expect(template).toContain(`"name" "${plural}.despatch.dev"`);
    expect(template).toContain('(dict "helm.sh/resource-policy" "keep")');
  }
});

const withSpec = (spec: z.ZodType): CustomResource => {
  const [resource] = CUSTOM_RESOURCES;
  if (resource === undefined) throw new Error('there is no kind');
  const schema = z
    .object({ spec, status: z.object({}).meta({ description: 'As it is.' }) })
    .meta({ description: 'A thing.' });
  return { ...resource, schema };
};

test('braces in a schema are escaped in the Helm template', () => {
  const description = 'Written as {{ name }} in templates.';
  const [plain, template] = generateCrds([withSpec(z.object({}).meta({ description }))]);
  expect(plain?.text).toContain(description);
  expect(template?.text).not.toContain(description);
  expect(rendered(template?.text ?? '')).toEqual({
    ...parse(plain?.text ?? ''),
    metadata: null,
  });
});

test('a schema with an unbounded field is rejected', () => {
  const spec = z
    .object({ name: z.string().meta({ description: 'A name.' }) })
    .meta({ description: 'Wanted.' });
  expect(() => generateCrds([withSpec(spec)])).toThrow('.spec.name: has no maxLength');
});
