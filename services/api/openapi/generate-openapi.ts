import swagger from '@fastify/swagger';
import fastify from 'fastify';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { VERSION } from '#core/platform/process/version.ts';
import { apiRoutes } from '../api-routes.ts';
import { errorExamples } from './generate-error-examples.ts';
import {
  completeOperation,
  HEADERS,
  PARAMETERS,
  type DocumentedRoute,
  type Operation,
} from './generate-operation.ts';
import { plainSchema, type Json } from './generate-schemas.ts';
import { describeWebhooks } from './generate-webhooks.ts';
import { exampleOf } from '../http/example-of.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { TAGS } from '../http/routes/tags.ts';

const DESCRIPTION = `Send sms, email, push and whatsapp messages through your own provider accounts.

Fields of requests may be written in camelCase or snake_case. Unknown fields and query parameters are ignored and listed in
\`warnings\` of the answer, if it has that field, with the right name if a similar one exists. A null is the same as an
absent field, except in PATCH, where it clears an optional field, and in maps of your own keys. Times are ISO 8601, in
answers in UTC; a time in a request has any time zone, and may have no seconds.
Every error has the same body, see \`Error\`; branch on \`statusCode\` and \`code\`.

Answers gain fields and, rarely, values over time: ignore unknown ones.`;

const SECURITY_SCHEMES = {
  serviceKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Service-Key',
    description: 'For programs. Belongs to one tenant.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'For people: a sign-in token of the configured OpenID Connect issuer.',
  },
};

/** Returns the OpenAPI document that is committed: an installation replaces `/` with its own address. */
export async function generateOpenapi(): Promise<string> {
  return `${JSON.stringify(await describeRoutes(apiRoutes(nothing)), null, 2)}\n`;
}

const SCHEMAS = '#/components/schemas/';

/** Placeholder dependencies of the handlers. Routes are only described, never called. */
const nothing = new Proxy(() => {}, { get: () => nothing, apply: () => nothing }) as never;

/** Builds the document from the routes' own schemas and the declarations next to them. */
async function describeRoutes(modules: readonly RouteModule[]): Promise<Json> {
  await using app = fastify();
  const routes = new Map<string, DocumentedRoute>();
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Despatch',
        version: VERSION,
        description: DESCRIPTION,
        contact: { name: 'Whoever runs this installation' },
        license: { name: 'Apache 2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
      },
      servers: [{ url: '/', description: 'This installation' }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      components: { securitySchemes: SECURITY_SCHEMES as never },
    },
    transform: (input) => {
      const { config, method } = input.route;
      if (config?.auth !== undefined && config.docs !== undefined) {
        const { body, response = {} } = (input.schema ?? {}) as { body?: unknown; response?: Json };
        const path = input.url.replace(/:(\w+)/g, '{$1}');
        const named = { path, method: String(method).toLowerCase(), auth: config.auth, docs: config.docs };
        const examples = { request: exampleOf(body), response: exampleOf(response[config.docs.status]) };
        const isBodyRequired = body instanceof z.ZodType && !body.safeParse({}).success;
        routes.set(`${named.method} ${path}`, { ...named, isBodyRequired, examples });
      }
      return jsonSchemaTransform(input);
    },
    transformObject: (input) => complete(jsonSchemaTransformObject(input) as Json, routes) as never,
  });
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => () => '');
  for (const addRoutes of modules) addRoutes(app);
  await app.ready();
  return app.swagger() as unknown as Json;
}

function complete(document: Json, routes: ReadonlyMap<string, DocumentedRoute>): Json {
  const { paths } = document as { paths: Record<string, Record<string, Operation>> };
  const responses: Record<string, Json> = {};
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const route = routes.get(`${method} ${path}`);
      if (route === undefined) throw new Error(`${method} ${path} is not declared by defineRoute`);
      completeOperation(operation, route);
      shareErrors(operation, responses);
    }
  }
  const { webhooks, pathItems } = describeWebhooks();
  const components = {
    ...(document['components'] as Json),
    pathItems,
    headers: HEADERS,
    responses,
    parameters: PARAMETERS,
    examples: errorExamples(responses),
  };
  return withMappings(plainSchemas(withPlainNames(withoutUnused({ ...document, components, webhooks }))));
}

/** Many operations have the same error answers: each set of codes is in the document once. */
function shareErrors({ responses }: Operation, shared: Record<string, Json>): void {
  for (const [status, response] of Object.entries(responses)) {
    if (Number(status) < 400) continue;
    const alike = Object.entries(shared).filter(([name]) => name.startsWith(`Error${status}`));
    const known = alike.find(([, one]) => JSON.stringify(one) === JSON.stringify(response));
    const name = known?.[0] ?? `Error${status}${alike.length === 0 ? '' : `-${alike.length + 1}`}`;
    shared[name] = response;
    responses[status] = { $ref: `#/components/responses/${name}` };
  }
}

/** The library writes each named schema twice, for input and output; unreferenced ones are removed. */
function withoutUnused(document: Json): Json {
  const components = document['components'] as Json;
  const all = components['schemas'] as Json;
  const used = new Set<string>();
  const visit = (value: unknown): void => {
    for (const [, name = ''] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      if (used.has(name)) continue;
      used.add(name);
      visit(all[name]);
    }
  };
  visit([document['paths'], components['responses'], components['pathItems']]);
  const schemas = Object.fromEntries(
    Object.entries(all)
      .filter(([name]) => used.has(name))
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
  return { ...document, components: { ...components, schemas } };
}

/**
 * The library names a request schema `SendMessageInput`: the suffix is needed only when an answer has a schema with the
 * same name.
 */
function withPlainNames(document: Json): Json {
  const { schemas } = document['components'] as { schemas: Json };
  const isFree = (name: string): boolean =>
    name.endsWith('Input') && schemas[name.slice(0, -5)] === undefined;
  const plainName = (name: string): string => (isFree(name) ? name.slice(0, -5) : name);
  const text = JSON.stringify(document).replaceAll(
    /"#\/components\/schemas\/([^"]+)"/g,
    (_, name: string) => `"#/components/schemas/${plainName(name)}"`,
  );
  const renamed = JSON.parse(text) as { components: { schemas: Json } };
  const entries = Object.entries(renamed.components.schemas).map(([name, schema]) => [
    plainName(name),
    schema,
  ]);
  renamed.components.schemas = Object.fromEntries(entries) as Json;
  return renamed;
}

/** Visits every place that can contain a schema: components, parameters, headers and contents. */
function plainSchemas(document: Json): Json {
  const visit = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(visit);
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([key, inner]) => {
      if (key === 'schema') return [key, plainSchema(inner as Json)];
      if (key === 'example' || key === 'examples') return [key, inner];
      return [key, visit(inner)];
    });
    return Object.fromEntries(entries) as Json;
  };
  const visited = visit(document) as { components: { schemas: Record<string, Json> } };
  const schemas = Object.entries(visited.components.schemas).map(([name, schema]) => {
    // Examples are shown with the operations, as whole requests and answers.
    const { examples: _, ...shown } = schema;
    return [name, plainSchema(shown)];
  });
  visited.components.schemas = Object.fromEntries(schemas) as Record<string, Json>;
  return visited;
}

/** Adds to each union with a discriminator the mapping from value to schema, taken from the members' own fields. */
function withMappings(document: Json): Json {
  const { schemas } = document['components'] as { schemas: Record<string, Json> };
  for (const schema of Object.values(schemas)) {
    const { discriminator, oneOf } = schema as { discriminator?: { propertyName: string }; oneOf?: Json[] };
    if (discriminator === undefined || oneOf === undefined) continue;
    const mapping = oneOf.flatMap(({ $ref }) => {
      const { properties } = schemas[String($ref).slice(SCHEMAS.length)] as {
        properties: Record<string, Json>;
      };
      const values = properties[discriminator.propertyName]?.['enum'] as string[];
      return values.map((value) => [value, $ref] as const);
    });
    schema['discriminator'] = { ...discriminator, mapping: Object.fromEntries(mapping) };
  }
  return document;
}
