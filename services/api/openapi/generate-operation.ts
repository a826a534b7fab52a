import type { ErrorCode } from '#core/domain/fault/app-error.ts';
import { ROLES, type Role, type Scope } from '#core/domain/tenant/role.ts';
import type { RouteAuth } from '../auth/auth.ts';
import { STATUS } from '../http/errors.ts';
import { IDEMPOTENCY_KEY } from '../http/routes/idempotency.ts';
import { IF_MATCH } from '../http/routes/if-match.ts';
import type { Json } from './generate-schemas.ts';
import type { Examples, RouteDocs } from '../http/routes/route.ts';

type Content = Record<string, Json>;
type Response = { description: string; headers?: Json; content?: Content };
export type Operation = {
  description?: string;
  parameters?: Json[];
  requestBody?: { required?: boolean; content: Content };
  responses: Record<string, Response | { $ref: string }>;
  security?: Json[];
};
/** What is known of a route besides its schemas. */
export type DocumentedRoute = {
  readonly path: string;
  readonly method: string;
  readonly auth: RouteAuth;
  readonly docs: RouteDocs;
  /** Whether the body has required fields; a body without them may be absent. */
  readonly isBodyRequired: boolean;
  /** Examples of the body and answer schemas. */
  readonly examples: { readonly request?: unknown; readonly response?: unknown };
};

/** Adds the common parts of an operation: credentials, headers, examples, errors. */
export function completeOperation(operation: Operation, route: DocumentedRoute): void {
  const { auth, docs, examples } = route;
  operation.security = securityOf(auth);
  const needs = accessText(auth);
  if (needs !== undefined) operation.description = `${operation.description ?? ''}\n\n${needs}`;
  operation.parameters = [...(operation.parameters ?? []).map(withMapStyle), ...headerParameters(route)];
  if (operation.requestBody !== undefined) {
    operation.requestBody.required = route.isBodyRequired;
    addExamples(operation.requestBody.content, examples.request, docs.examples);
  }
  if (docs.rawAnswers !== undefined && route.method !== 'get') operation.requestBody = ANY_BODY;
  if (docs.upload !== undefined)
    operation.requestBody = { required: true, content: filesOf(docs.upload.types) };
  const { content } = (operation.responses[docs.status] ?? {}) as Partial<Response>;
  if (content !== undefined) addExamples(content, examples.response);
  if (content !== undefined && docs.csv === true) content['text/csv'] = { schema: { type: 'string' } };
  operation.responses = {
    [docs.status]: {
      description: SUCCESS[docs.status] ?? 'Success',
      headers: headers(
        'X-Request-Id',
        ...(isCounted(auth) ? RATE_LIMIT_HEADERS : []),
        ...(docs.idempotent ? (['Idempotent-Replayed'] as const) : []),
        ...(docs.versioned === true ? (['ETag'] as const) : []),
      ),
      ...(content === undefined ? {} : { content }),
      ...(docs.download === undefined ? {} : { content: filesOf(docs.download) }),
    },
    ...(docs.rawAnswers === undefined ? {} : { 200: rawResponse(docs.rawAnswers) }),
    ...Object.fromEntries(
      [...errorsOf(route)].map(([status, codes]) => [status, errorResponse(status, [...codes], auth)]),
    ),
  };
  const missing = operation.responses[404] as Partial<Response> | undefined;
  if (missing?.content !== undefined && docs.rawNotFound !== undefined)
    Object.assign(missing.content, filesOf(docs.rawNotFound));
}

/** Describes text bodies of these media types, each with an example. */
function filesOf(types: Readonly<Record<string, string>>): Content {
  return Object.fromEntries(
    Object.entries(types).map(([type, example]) => [type, { schema: { type: 'string' }, example }]),
  );
}

/** Pairs of a map are sent as `name[key]=value`, the style that generated clients support. */
function withMapStyle(parameter: Json): Json {
  const { type } = (parameter['schema'] ?? {}) as Json;
  return type === 'object' ? { ...parameter, style: 'deepObject', explode: true } : parameter;
}

function addExamples(content: Content, example: unknown, named?: Examples): void {
  const json = content['application/json'];
  if (json === undefined) return;
  if (named !== undefined) json['examples'] = named;
  else if (example !== undefined) json['example'] = example;
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

/** Returns a sentence on which key or person may call; undefined if anybody may. */
function accessText(auth: RouteAuth): string | undefined {
  switch (auth.kind) {
    case 'none':
      return undefined;
    case 'key':
      return `Needs ${keyWith(auth.scope)}.`;
    case 'either':
      return `Needs ${keyWith(auth.scope)}, or ${memberWith(auth.role)}.`;
    case 'bearer':
      return `Needs ${memberWith(auth.role)}.`;
    case 'user':
      return 'Needs a user who has signed in.';
  }
}

const keyWith = (scope: Scope): string => `a key with the scope \`${scope}\``;

function memberWith(role: Role): string {
  if (role === ROLES.at(-1)) return 'a member of the tenant';
  return `a member of the tenant with the role \`${role}\`${role === ROLES[0] ? '' : ' or a higher one'}`;
}

const slug = { type: 'string', pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' };
const header = (name: string, description: string, schema: Json): Json => ({
  in: 'header',
  name,
  description,
  required: false,
  schema,
});

/** Request headers shared by many operations, for the document's components. */
export const PARAMETERS = {
  TenantSlug: {
    ...header('X-Tenant-Slug', "The user's tenant that the call acts on.", slug),
    required: true,
  },
  TenantSlugOfBearer: header(
    'X-Tenant-Slug',
    "The user's tenant that the call acts on. Required with a bearer token.",
    slug,
  ),
  AppName: header(
    'X-App-Name',
    'Name of the client, for the audit log. Never refused: it is cut to 64 characters of printable ASCII.',
    { type: 'string' },
  ),
  IdempotencyKey: header(
    'Idempotency-Key',
    'Makes the call repeatable: the same key and body return the first answer again. 1 to 255 printable ASCII characters, bare or in double quotes.',
    { type: 'string', pattern: IDEMPOTENCY_KEY.source },
  ),
  IfMatch: header(
    'If-Match',
    'The version that the change is based on, as in the header `ETag`, or several with commas between them; `*` matches any version. If the current version is another one, the change is refused.',
    { type: 'string', pattern: IF_MATCH.source },
  ),
  IfNoneMatch: header(
    'If-None-Match',
    'Versions that the change must not replace, as in the header `ETag`; `*` names every version but 0, so that only the first change is made.',
    { type: 'string' },
  ),
};

function headerParameters({ auth, method, docs }: DocumentedRoute): Json[] {
  const names: (keyof typeof PARAMETERS)[] = [];
  if (auth.kind === 'bearer') names.push('TenantSlug');
  if (auth.kind === 'either') names.push('TenantSlugOfBearer');
  if (auth.kind !== 'key' && auth.kind !== 'none') names.push('AppName');
  if (docs.idempotent) names.push('IdempotencyKey');
  if (docs.versioned === true && method !== 'get') names.push('IfMatch', 'IfNoneMatch');
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }));
}

/** Returns whether calls count against a limit that response headers report: every user's, and of keys the changes and sends. */
function isCounted(auth: RouteAuth): boolean {
  return auth.kind === 'key'
    ? auth.scope === 'messages:send' || auth.countsChanges === true
    : auth.kind !== 'none';
}

/** Returns whether an error may report a limit: a send counts when it is stored, any other call when its caller is known. */
function reportsLimit(status: number, auth: RouteAuth): boolean {
  if (!isCounted(auth) || status === 401 || status === 405) return false;
  return status === 429 || auth.kind !== 'key' || auth.countsChanges === true;
}

function errorsOf({ auth, docs, path, method }: DocumentedRoute): Map<number, Set<ErrorCode>> {
  const isAuthenticated = auth.kind !== 'none';
  const usesKey = auth.kind === 'key' || auth.kind === 'either';
  const usesTenant = auth.kind === 'bearer' || auth.kind === 'either';
  const codes: ErrorCode[] = [
    'validation_failed',
    'method_not_allowed',
    'payload_too_large',
    'internal_error',
    'dependency_unavailable',
  ];
  if (docs.hasInput) codes.push('missing_field');
  if (method !== 'get') codes.push('unsupported_media_type');
  if (method !== 'get' && docs.rawAnswers === undefined && docs.upload === undefined)
    codes.push('malformed_json');
  if (isAuthenticated) codes.push('unauthenticated', 'tenant_suspended', 'rate_limited');
  if (usesKey) codes.push('api_key_expired', 'api_key_revoked', 'api_key_rotated', 'insufficient_scope');
  if (auth.kind === 'bearer' || auth.kind === 'either' || auth.kind === 'user')
    codes.push('insufficient_role');
  if (usesTenant) codes.push('tenant_required');
  if (usesTenant || path.includes('{')) codes.push('not_found');
  if (docs.idempotent) codes.push('idempotency_key_conflict', 'idempotency_mismatch');
  const byStatus = new Map<number, Set<ErrorCode>>();
  for (const code of [...codes, ...docs.errors]) {
    const status = STATUS[code];
    byStatus.set(status, (byStatus.get(status) ?? new Set()).add(code));
  }
  return new Map([...byStatus].toSorted(([a], [b]) => a - b));
}

function errorResponse(status: number, codes: readonly ErrorCode[], auth: RouteAuth): Response {
  const examples = codes.map((code) => [code, { $ref: `#/components/examples/${code}` }] as const);
  return {
    description: `${FAILURES[status] ?? 'Error'}: ${codes.map((code) => `\`${code}\``).join(', ')}`,
    headers: headers(
      'X-Request-Id',
      ...(status === 429 || status === 503 ? (['Retry-After'] as const) : []),
      ...(reportsLimit(status, auth) ? RATE_LIMIT_HEADERS : []),
      ...(status === 401 ? (['WWW-Authenticate'] as const) : []),
      ...(status === 405 ? (['Allow'] as const) : []),
    ),
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/Error' },
        examples: Object.fromEntries(examples),
      },
    },
  };
}

const whole = (minimum: number, maximum: number) => ({ type: 'integer', format: 'int32', minimum, maximum });
/** Response headers, for the document's components. */
export const HEADERS = {
  'X-Request-Id': {
    description: 'Id of the request in logs; the id sent with the request, if it is safe to print.',
    required: true,
    schema: { type: 'string' },
  },
  'RateLimit-Limit': { description: 'Requests per minute.', schema: whole(1, 60_000) },
  'RateLimit-Remaining': { description: 'Requests left now.', schema: whole(0, 60_000) },
  'RateLimit-Reset': { description: 'Seconds until the limit is free again.', schema: whole(1, 61) },
  'Idempotent-Replayed': {
    description: 'Present when this is the answer of an earlier call with the same key.',
    schema: { type: 'string', enum: ['true'] },
  },
  ETag: { description: 'Version of the resource.', required: true, schema: { type: 'string' } },
  'Retry-After': { description: 'Seconds.', required: true, schema: whole(1, 86_400) },
  'WWW-Authenticate': {
    description:
      'The credentials that the operation accepts: `Bearer`, and `ApiKey` for a key in the named header.',
    required: true,
    schema: { type: 'string' },
  },
  Allow: { description: 'Methods of this path.', required: true, schema: { type: 'string' } },
};

const RATE_LIMIT_HEADERS = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'] as const;

function headers(...names: readonly (keyof typeof HEADERS)[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

const ANY_BODY = { content: { '*/*': { schema: {} } } };

function rawResponse(answers: Readonly<Record<string, string>>): Response {
  return {
    description: 'Done; the body that the caller expects',
    headers: headers('X-Request-Id'),
    content: filesOf(answers),
  };
}

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
  404: 'Not found, or not accessible to the caller',
  405: 'Method not allowed',
  409: 'Conflict',
  412: 'Changed in the meantime',
  413: 'Too large',
  415: 'Unsupported media type',
  429: 'Limit reached',
  500: 'Fault of the service. The request may have taken effect: repeat it with the same idempotency key, with backoff',
  503: 'Temporarily unavailable. The request may have taken effect: repeat it with the same idempotency key, with backoff',
};
