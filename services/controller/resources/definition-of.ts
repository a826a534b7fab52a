import { API_GROUP, API_VERSION } from './api-group.ts';
import type { CustomResource } from './custom-resource.ts';
import { structuralSchema, type StructuralSchema } from './structural-schema.ts';

/** A CustomResourceDefinition without the metadata that depends on the installer. */
export type Definition = {
  readonly apiVersion: 'apiextensions.k8s.io/v1';
  readonly kind: 'CustomResourceDefinition';
  readonly metadata: { readonly name: string };
  readonly spec: Readonly<Record<string, unknown>> & {
    readonly versions: readonly [Version];
  };
};

type Version = Readonly<Record<string, unknown>> & {
  readonly schema: { readonly openAPIV3Schema: StructuralSchema };
};

export function definitionOf(resource: CustomResource): Definition {
  const { kind, plural, singular, shortNames, categories, scope, columns, selectableFields } = resource;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${API_GROUP}` },
    spec: {
      group: API_GROUP,
      scope,
      names: { kind, listKind: `${kind}List`, plural, singular, shortNames, categories },
      versions: [
        {
          name: API_VERSION,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: structuralSchema(resource) },
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          ...(selectableFields.length === 0
            ? {}
            : { selectableFields: selectableFields.map((jsonPath) => ({ jsonPath })) }),
        },
      ],
    },
  };
}
