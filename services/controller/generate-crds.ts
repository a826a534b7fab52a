import { stringify } from 'yaml';
import { API_GROUP } from './resources/api-group.ts';
import type { CustomResource } from './resources/custom-resource.ts';
import { CUSTOM_RESOURCES } from './resources/custom-resources.ts';
import { definitionOf, type Definition } from './resources/definition-of.ts';
import { schemaGaps } from './resources/schema-gaps.ts';

export type GeneratedFile = {
  /** Relative to the project's root. */
  readonly path: string;
  readonly text: string;
};

const NOTICE = '# Written by `npm run gen` from services/controller/resources; do not edit.\n';

/**
 * Generates the CustomResourceDefinitions, as plain manifests and as templates of the chart.
 * @throws when a schema leaves a field unbounded or undescribed.
 */
export function generateCrds(resources: readonly CustomResource[] = CUSTOM_RESOURCES): GeneratedFile[] {
  return resources.flatMap((resource) => {
    const definition = definitionOf(resource);
    const gaps = schemaGaps(definition.spec.versions[0].schema.openAPIV3Schema);
    if (gaps.length > 0) throw new Error(`the schema of ${resource.kind} is open:\n${gaps.join('\n')}`);
    return [
      { path: `crds/${API_GROUP}_${resource.plural}.yaml`, text: manifest(definition) },
      { path: `charts/despatch/templates/crds/${resource.plural}.yaml`, text: template(definition) },
    ];
  });
}

function manifest(definition: Definition): string {
  const metadata = { ...definition.metadata, labels: { 'app.kubernetes.io/name': 'despatch' } };
  return NOTICE + yaml({ ...definition, metadata });
}

/**
 * Returns the same as a Helm template, with values for whether to install it and keep it on uninstall, and with the
 * release's labels.
 */
function template({ apiVersion, kind, metadata, spec }: Definition): string {
  return `{{- /* Written by \`npm run gen\` from services/controller/resources; do not edit. */}}
{{- if .Values.crds.enabled }}
${escape(yaml({ apiVersion, kind }))}metadata:
  {{- $keep := .Values.crds.keep | ternary (dict "helm.sh/resource-policy" "keep") (dict) }}
  {{- $annotations := merge $keep (default (dict) .Values.crds.annotations) }}
  {{- include "despatch.metadata" (dict "root" . "name" "${metadata.name}" "cluster" true "annotations" $annotations) | nindent 2 }}
${escape(yaml({ spec }))}{{- end }}
`;
}

/** Helm parses two braces as an action everywhere in a file. */
function escape(text: string): string {
  return text.replaceAll('{{', '{{ "{{" }}');
}

function yaml(value: unknown): string {
  return stringify(value, { sortMapEntries: true, lineWidth: 120, aliasDuplicateObjects: false });
}
