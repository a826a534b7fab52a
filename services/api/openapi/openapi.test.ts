import { describe, expect, test } from 'vitest';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { CHANNELS } from '#core/domain/message/channel.ts';
import document from '../openapi.json' with { type: 'json' };

type Json = Record<string, unknown>;
type Content = { readonly content?: Record<string, Json> };
type Operation = Json & {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly requestBody?: Content & { readonly required?: boolean };
  readonly responses: Record<string, Content & { readonly headers?: Record<string, unknown> }>;
};

const schemas = document.components.schemas as unknown as Record<string, Json>;
const paths = document.paths as unknown as Record<string, Record<string, Operation>>;
const operations = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method} ${path}`,
    path,
    method,
    operation,
  })),
);

/** Returns every schema in a value, with its path. */
function schemasIn(value: unknown, place = ''): { readonly place: string; readonly schema: Json }[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    if (key === 'example' || key === 'examples') return [];
    const below = `${place}/${key}`;
    return [...(isSchema(inner) ? [{ place: below, schema: inner }] : []), ...schemasIn(inner, below)];
  });
}

function isSchema(value: unknown): value is Json {
  const { type } = (value ?? {}) as Json;
  return typeof type === 'string' || Array.isArray(type) || (value as Json | null)?.['const'] !== undefined;
}

const all = [...schemasIn(schemas, 'schemas'), ...schemasIn(paths, 'paths')];
const isOf = (schema: Json, type: string): boolean => [schema['type']].flat().includes(type);

describe('operations', () => {
  test('have unique operation ids in camelCase', () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    for (const id of ids) expect(id).toMatch(/^(?:[a-z]+)(?:[A-Z][a-z]+)+$/);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toEqual(
      expect.arrayContaining(['sendMessage', 'getMessage', 'listMessages', 'listProviders', 'rotateApiKey']),
    );
  });

  test('have a summary, a description and a documented tag', () => {
    const groups = document.tags.filter(({ description }) => description !== '').map(({ name }) => name);
    for (const { name, operation } of operations) {
      expect([name, operation.summary.length > 5, operation.description.length > 5]).toEqual([
        name,
        true,
        true,
      ]);
      expect(groups).toEqual(expect.arrayContaining([...operation.tags]));
    }
  });

  test('have an example of each body, and response examples show every field', () => {
    for (const { name, operation } of operations) {
      const [success] = Object.entries(operation.responses).filter(([status]) => Number(status) < 300);
      for (const body of [operation.requestBody, success?.[1]]) {
        const json = body?.content?.['application/json'];
        if (json === undefined) continue;
        expect([name, json['example'] ?? json['examples']]).toEqual([name, expect.anything()]);
      }
      const json = success?.[1].content?.['application/json'];
      const { properties, items } = resolved(json?.['schema'] as Json | undefined);
      if (properties === undefined || items !== undefined) continue;
      const optional = new Set(['test', 'warnings', 'scheduledAt', 'segments', 'encoding']);
      const shown = Object.keys(json?.['example'] as Json);
      const fields = Object.keys(properties as Json).filter((field) => !optional.has(field));
      expect([name, shown]).toEqual([name, expect.arrayContaining(fields)]);
    }
  });
});

describe('bodies and headers', () => {
  const operationOf = (id: string) =>
    operations.find(({ operation }) => operation.operationId === id)?.operation;
  const responseOf = (id: string, status: number): { headers?: Json; content?: Json } => {
    const response = operationOf(id)?.responses[status] as Json | undefined;
    const reference = response?.['$ref'];
    if (typeof reference !== 'string') return response ?? {};
    return (document.components.responses as Record<string, Json>)[reference.split('/').at(-1) ?? ''] ?? {};
  };
  const headersOf = (id: string, status: number) => Object.keys(responseOf(id, status).headers ?? {});
  const LIMITS = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'];

  test('a body without required fields may be absent', () => {
    expect(operationOf('retryMessage')?.requestBody?.required).toBe(false);
    expect(operationOf('rotateApiKey')?.requestBody?.required).toBe(false);
    expect(operationOf('sendMessage')?.requestBody?.required).toBe(true);
    expect(operationOf('createApiKey')?.requestBody?.required).toBe(true);
  });

  test.each([
    ['takeReceipt', ['text/xml', 'text/plain']],
    ['takeReceiptOfQuery', ['text/xml', 'text/plain']],
    ['unsubscribeRecipient', ['text/html']],
    ['askToUnsubscribe', ['text/html']],
  ])('%s documents the media types of its answers with a body', (id, types) => {
    expect(Object.keys(operationOf(id)?.responses['200']?.content ?? {})).toEqual(types);
  });

  test.each(['unsubscribeRecipient', 'askToUnsubscribe'])(
    '%s documents the page that an expired link is answered with',
    (id) => {
      expect(Object.keys(responseOf(id, 404).content ?? {})).toEqual(['application/json', 'text/html']);
    },
  );

  test('only rate-limited operations document RateLimit headers, also in their errors', () => {
    expect(headersOf('sendMessage', 202)).toEqual(expect.arrayContaining(LIMITS));
    expect(headersOf('sendMessage', 429)).toEqual(expect.arrayContaining([...LIMITS, 'Retry-After']));
    expect(headersOf('listEvents', 200).filter((name) => LIMITS.includes(name))).toEqual([]);
    expect(headersOf('listEvents', 429).filter((name) => LIMITS.includes(name))).toEqual([]);
    for (const status of [400, 403, 404, 413, 429, 500])
      expect(headersOf('createApiKey', status)).toEqual(expect.arrayContaining(LIMITS));
    for (const [operation, status] of [
      ['createApiKey', 401],
      ['createApiKey', 405],
      ['sendMessage', 400],
      ['listEvents', 400],
    ] as const)
      expect(headersOf(operation, status).filter((name) => LIMITS.includes(name))).toEqual([]);
  });

  test('every 401 response documents WWW-Authenticate', () => {
    for (const operation of ['createApiKey', 'sendMessage', 'listMessages', 'getMe'])
      expect(headersOf(operation, 401)).toContain('WWW-Authenticate');
  });
});

function resolved(schema: Json | undefined): Json {
  const reference = schema?.['$ref'];
  return typeof reference === 'string'
    ? (schemas[reference.split('/').at(-1) ?? ''] as Json)
    : (schema ?? {});
}

describe('schemas', () => {
  test('have PascalCase names and descriptions, and every JSON body refers to one', () => {
    expect(Object.keys(schemas)).toEqual(
      expect.arrayContaining([
        'SendMessage',
        'SendSmsMessage',
        'SendEmailMessage',
        'SendPushMessage',
        'SendWhatsappMessage',
        'AcceptedMessage',
        'Message',
        'MessagePage',
        'Attempt',
        'Event',
        'Error',
        'Provider',
        'ProviderPage',
        'CreateProvider',
        'ApiKey',
        'ApiKeyPage',
        'CreateApiKey',
      ]),
    );
    for (const [name, { description }] of Object.entries(schemas)) {
      expect(name).toMatch(/^[A-Z][A-Za-z]+$/);
      expect(name).not.toMatch(/Input$/);
      expect([name, description]).toEqual([name, expect.any(String)]);
    }
    for (const { name, operation } of operations) {
      const bodies = [operation.requestBody, ...Object.values(operation.responses)];
      for (const body of bodies) {
        const json = body?.content?.['application/json'];
        if (json !== undefined) expect([name, json['schema']]).toEqual([name, { $ref: expect.any(String) }]);
      }
    }
  });

  test('an attempt allows any HTTP status from 100 to 999', () => {
    expect(schemas['Attempt']).toMatchObject({
      properties: { httpStatus: { minimum: 100, maximum: 999 } },
    });
  });

  test('the channel is the discriminator between the schemas of a message', () => {
    const { discriminator } = schemas['SendMessage'] as {
      discriminator: { mapping: Record<string, string> };
    };
    expect(discriminator).toEqual({
      propertyName: 'channel',
      mapping: {
        sms: '#/components/schemas/SendSmsMessage',
        email: '#/components/schemas/SendEmailMessage',
        push: '#/components/schemas/SendPushMessage',
        whatsapp: '#/components/schemas/SendWhatsappMessage',
      },
    });
    expect(Object.keys(discriminator.mapping)).toEqual([...CHANNELS]);
  });

  test('avoid const, format with pattern, default with anyOf, and closed objects', () => {
    expect(all.length).toBeGreaterThan(300);
    const faults = all.flatMap(({ place, schema }) => [
      ...(schema['const'] === undefined ? [] : [`${place}: const`]),
      ...(schema['format'] !== undefined && schema['pattern'] !== undefined ? [`${place}: pattern`] : []),
      ...(schema['anyOf'] !== undefined && schema['default'] !== undefined ? [`${place}: default`] : []),
      ...(schema['additionalProperties'] === false ? [`${place}: closed`] : []),
    ]);
    expect(faults).toEqual([]);
  });

  test('every integer has a minimum and a maximum', () => {
    const integers = all.filter(({ schema }) => isOf(schema, 'integer'));
    expect(integers.length).toBeGreaterThan(30);
    for (const { place, schema } of integers) {
      expect([place, schema['minimum'], schema['maximum']]).toEqual([
        place,
        expect.any(Number),
        expect.any(Number),
      ]);
      expect([place, Math.abs(schema['maximum'] as number) < Number.MAX_SAFE_INTEGER]).toEqual([place, true]);
    }
  });

  test('every integer has the format of its range, because generated clients take one without a format for 32 bits', () => {
    const integers = all.filter(({ schema }) => isOf(schema, 'integer'));
    const isLarge = ({ schema }: (typeof all)[number]) => (schema['maximum'] as number) > INT32_MAX;
    expect(integers.filter(isLarge).length).toBeGreaterThan(30);
    for (const one of integers) {
      expect([one.place, one.schema['format']]).toEqual([one.place, isLarge(one) ? 'int64' : 'int32']);
    }
  });
});

/** Clients rely on the document alone, so enums of answers already include values of planned features. */
describe('enums of responses contain every value', () => {
  const valuesOf = (schema: string, ...path: readonly string[]): unknown[] => {
    const field = path.reduce(
      (inner, name) =>
        resolved(inner['items'] === undefined ? (inner['properties'] as Record<string, Json>)[name] : inner),
      schemas[schema] as Json,
    );
    return [field['items'] ?? field].flatMap((one) => (resolved(one as Json)['enum'] ?? []) as unknown[]);
  };

  test.each([
    [
      'Message.status',
      'scheduled queued held sending deferred sent unknown delivered undelivered failed expired canceled suppressed',
    ],
    ['Message.finality', 'final pending accepted_only'],
    [
      'Message.statusReason',
      'ambiguous_attempt receipt_timeout abuse_brake breaker_open provider_rate shutdown',
    ],
    ['Message.category', 'transactional otp marketing'],
    ['Message.priority', 'high normal bulk'],
    ['Message.encoding', 'GSM-7 UCS-2'],
    [
      'MessageFailure.class',
      'invalid_recipient recipient_unavailable content_rejected sender_rejected auth_or_config provider_throttled provider_unavailable no_route expired unknown',
    ],
    ['Attempt.outcome', 'started accepted rejected_permanent rejected_transient ambiguous not_started'],
    [
      'Event.type',
      'message.queued message.sent message.deferred message.delivered message.undelivered message.failed message.expired message.canceled message.suppressed message.unknown message.engagement message.scheduled message.failed_over message.receipt',
    ],
    ['Provider.status', 'unverified active invalid disabled deleted'],
    ['Provider.health', 'healthy open probing'],
    ['ApiKey.status', 'active rotating expired revoked'],
    ['ApiKey.mode', 'live test'],
    ['ApiKey.scopes', 'messages:send messages:read events:read'],
    ['Tenant.status', 'provisioning active suspended deleting deleted'],
    ['Member.role', 'owner admin developer viewer'],
    ['AcceptedMessage.status', 'queued scheduled'],
    [
      'Error.code',
      'validation_failed missing_field malformed_json provider_not_configured idempotency_key_conflict tenant_required invalid_cursor url_blocked unauthenticated api_key_expired api_key_revoked tenant_suspended insufficient_role insufficient_scope plan_limit_reached not_found route_not_found method_not_allowed payload_too_large unsupported_media_type slug_taken idempotency_mismatch not_cancelable invalid_state last_owner managed_by_cluster rate_limited daily_limit_reached backlog_full internal_error dependency_unavailable api_key_rotated',
    ],
  ])('%s', (place, values) => {
    const [schema = '', field = ''] = place.split('.');
    expect(valuesOf(schema, field)).toEqual(expect.arrayContaining(values.split(' ')));
  });
});
