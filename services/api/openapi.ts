import swagger from '@fastify/swagger';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { VERSION } from '#core/platform/version.ts';
import type { RouteAuth } from './auth.ts';
import { installDocsPage } from './docs/docs-page.ts';
import { STATUS } from './errors.ts';
import { IDEMPOTENCY_KEY } from './idempotency.ts';
import type { RouteDocs } from './routes-kit.ts';

type Json = Record<string, unknown>;
type Operation = {
  parameters?: Json[];
  requestBody?: { required?: boolean; content: Record<string, Json> };
  responses: Record<string, { description: string; headers?: Json; content?: Json }>;
  security?: Json[];
};
type Documented = { readonly auth: RouteAuth; readonly docs: RouteDocs };

const DESCRIPTION = `Send sms, email, push and whatsapp messages through your own provider accounts.

Fields of requests may be written in camelCase or snake_case. Unknown ones are ignored, and named in \`warnings\` of
the answer, with the right name where one is near. A null is the same as an absent field, except in PATCH, where it
clears an optional one, and in maps of your own keys. Times are ISO 8601 in UTC.
Every error has the same body, see \`Error\`; branch on \`statusCode\` and \`code\`.`;

const SECURITY_SCHEMES = {
  serviceKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Service-Key',
    description: 'For machines. Belongs to one tenant.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'For people: a sign-in token of the configured OpenID Connect issuer.',
  },
};

/** Serves `/v1/openapi.json` and `/docs`, both made from the routes' own schemas. Call before routes are added. */
export async function installDocs(app: FastifyInstance, publicBaseUrl: string): Promise<void> {
  const documented = new Map<string, Documented>();
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Despatch',
        version: VERSION,
        description: DESCRIPTION,
        license: { name: 'Apache-2.0' },
      },
      servers: [{ url: publicBaseUrl }],
      components: { securitySchemes: SECURITY_SCHEMES as never },
    },
    transform: (input) => {
      const { auth, docs } = input.route.config ?? {};
      if (auth !== undefined && docs !== undefined) {
        documented.set(
          `${String(input.route.method).toLowerCase()} ${input.url.replace(/:(\w+)/g, '{$1}')}`,
          { auth, docs },
        );
      }
      return jsonSchemaTransform(input);
    },
    transformObject: (input) => complete(jsonSchemaTransformObject(input) as Json, documented) as never,
  });
  let bytes: Buffer | undefined;
  // Made once: anybody may ask for it, as often as they like.
  const sendDocument = (reply: FastifyReply): FastifyReply => {
    bytes ??= Buffer.from(JSON.stringify(app.swagger()));
    return reply.type('application/json; charset=utf-8').send(bytes);
  };
  installDocsPage(app, { document: () => app.swagger() as unknown as Json, serverUrl: publicBaseUrl });
  app.get('/v1/openapi.json', { schema: { hide: true } }, (_request, reply) => sendDocument(reply));
}

/** Adds to each operation what all routes of its kind have in common: credentials, headers, errors. */
function complete(document: Json, documented: ReadonlyMap<string, Documented>): Json {
  const paths = document['paths'] as Record<string, Record<string, Operation>>;
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const route = documented.get(`${method} ${path}`);
      if (route !== undefined) completeOperation(operation, path, method, route);
    }
  }
  return withoutUnused(document);
}

/** The generator writes each named schema twice, as input and as output; only what is referred to stays. */
function withoutUnused(document: Json): Json {
  const components = document['components'] as Json;
  const text = JSON.stringify(document);
  const schemas = Object.entries(components['schemas'] as Json).filter(([name]) =>
    text.includes(`"#/components/schemas/${name}"`),
  );
  return { ...document, components: { ...components, schemas: Object.fromEntries(schemas) } };
}

function completeOperation(
  operation: Operation,
  path: string,
  method: string,
  { auth, docs }: Documented,
): void {
  operation.security = securityOf(auth);
  operation.parameters = [...(operation.parameters ?? []).map(withMapStyle), ...headerParameters(auth, docs)];
  if (operation.requestBody !== undefined) {
    operation.requestBody.required = true;
    const content = operation.requestBody.content['application/json'];
    if (content !== undefined && docs.examples !== undefined) content['examples'] = docs.examples;
  }
  const success = operation.responses[docs.status];
  const { content } = success ?? {};
  operation.responses = {
    [docs.status]: {
      description: SUCCESS[docs.status] ?? 'Success',
      headers: {
        ...everyHeader,
        ...(isCounted(auth) ? rateLimitHeaders : {}),
        ...(docs.idempotent ? replayHeader : {}),
      },
      ...(content === undefined ? {} : { content }),
    },
    ...Object.fromEntries(
      [...errorsOf(auth, docs, path, method)].map(([status, codes]) => [
        status,
        errorResponse(status, codes),
      ]),
    ),
  };
}

/** Pairs of a map travel as `name[key]=value`: what generated clients know. */
function withMapStyle(parameter: Json): Json {
  const { type } = (parameter['schema'] ?? {}) as Json;
  return type === 'object' ? { ...parameter, style: 'deepObject', explode: true } : parameter;
}

function securityOf(auth: RouteAuth): Json[] {
  switch (auth.kind) {
    case 'none':
      return [];
    case 'key':
      return [{ serviceKey: [] }];
    case 'either':
      return [{ serviceKey: [] }, { bearer: [] }];
    case 'bearer':
    case 'user':
      return [{ bearer: [] }];
  }
}

function headerParameters(auth: RouteAuth, { idempotent }: RouteDocs): Json[] {
  const header = (name: string, description: string, schema: Json, required = false): Json => ({
    in: 'header',
    name,
    description,
    required,
    schema,
  });
  const parameters: Json[] = [];
  if (auth.kind === 'bearer' || auth.kind === 'either') {
    const description = "Which of the user's tenants is acted on. Needed with a bearer token.";
    const schema = { type: 'string', pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' };
    parameters.push(header('X-Tenant-Slug', description, schema, auth.kind === 'bearer'));
  }
  if (auth.kind !== 'key' && auth.kind !== 'none') {
    parameters.push(
      header('X-App-Name', 'What the client calls itself, for the audit log.', {
        type: 'string',
        pattern: PRINTABLE,
      }),
    );
  }
  if (idempotent) {
    const description =
      'Makes the call repeatable: the same key and body get the first answer again. 1 to 255 printable ASCII characters, bare or in double quotes.';
    parameters.push(
      header('Idempotency-Key', description, {
        type: 'string',
        pattern: IDEMPOTENCY_KEY.source,
      }),
    );
  }
  return parameters;
}

/** ASCII, as far as a header can carry it without an encoding. */
const PRINTABLE = '^[ -~]*$';

/** Whether calls count against a limit that headers tell about. */
function isCounted(auth: RouteAuth): boolean {
  return auth.kind !== 'none';
}

function errorsOf(auth: RouteAuth, docs: RouteDocs, path: string, method: string): Map<number, Set<string>> {
  const isAuthenticated = auth.kind !== 'none';
  const usesKey = auth.kind === 'key' || auth.kind === 'either';
  const usesTenant = auth.kind === 'bearer' || auth.kind === 'either';
  const codes: string[] = [
    'validation_failed',
    'method_not_allowed',
    'payload_too_large',
    'internal_error',
    'dependency_unavailable',
  ];
  if (docs.hasInput) codes.push('missing_field');
  if (method !== 'get') codes.push('malformed_json', 'unsupported_media_type');
  if (isAuthenticated) codes.push('unauthenticated', 'tenant_suspended', 'rate_limited');
  if (usesKey) codes.push('api_key_expired', 'api_key_revoked', 'api_key_rotated', 'insufficient_scope');
  if (auth.kind === 'bearer' || auth.kind === 'either' || auth.kind === 'user')
    codes.push('insufficient_role');
  if (usesTenant) codes.push('tenant_required');
  if (usesTenant || path.includes('{')) codes.push('not_found');
  if (docs.idempotent) codes.push('idempotency_key_conflict', 'idempotency_mismatch');
  const byStatus = new Map<number, Set<string>>();
  for (const code of [...codes, ...docs.errors]) {
    const status = STATUS[code as keyof typeof STATUS];
    byStatus.set(status, (byStatus.get(status) ?? new Set()).add(code));
  }
  return new Map([...byStatus].toSorted(([a], [b]) => a - b));
}

function errorResponse(status: number, codes: ReadonlySet<string>): Operation['responses'][string] {
  return {
    description: `${FAILURES[status] ?? 'Error'}: ${[...codes].map((code) => `\`${code}\``).join(', ')}`,
    headers: {
      ...everyHeader,
      ...(status === 429 || status === 503 ? retryHeader : {}),
      ...(status === 405 ? allowHeader : {}),
    },
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  };
}

const whole = { type: 'integer', minimum: 0 };
const everyHeader = {
  'X-Request-Id': {
    description: 'Names the request in logs; the one sent along, where it is harmless to print.',
    required: true,
    schema: { type: 'string' },
  },
};
const rateLimitHeaders = {
  'RateLimit-Limit': { description: 'Requests per minute.', schema: whole },
  'RateLimit-Remaining': { description: 'Requests left now.', schema: whole },
  'RateLimit-Reset': { description: 'Seconds until the limit is free again.', schema: whole },
};
const replayHeader = {
  'Idempotent-Replayed': {
    description: 'Present when this is the answer of an earlier call with the same key.',
    schema: { type: 'string', enum: ['true'] },
  },
};
const retryHeader = {
  'Retry-After': { description: 'Seconds.', required: true, schema: { type: 'integer', minimum: 1 } },
};
const allowHeader = {
  Allow: { description: 'Methods of this path.', required: true, schema: { type: 'string' } },
};

const SUCCESS: Readonly<Record<number, string>> = {
  200: 'Success',
  201: 'Created',
  202: 'Accepted',
  204: 'Done',
};
const FAILURES: Readonly<Record<number, string>> = {
  400: 'Bad request',
  401: 'Missing or invalid authentication',
  403: 'Authenticated but not allowed',
  404: 'Not found, or not yours',
  405: 'Method not allowed',
  409: 'Conflict',
  413: 'Too large',
  415: 'Not JSON',
  429: 'Limit reached',
  500: 'Fault of the service; retry with backoff',
  503: 'Temporarily unavailable; retry with backoff',
};
