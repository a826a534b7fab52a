import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import { AppError, orNotFound, validationFailed } from '#core/domain/fault/app-error.ts';
import { newId, type ApiKeyId } from '#core/domain/storage/ids.ts';
import { SCOPES, type Scope } from '#core/domain/tenant/role.ts';
import {
  deriveKeySecret,
  formatServiceKey,
  hashKeySecret,
  KEY_MODES,
  keyPrefix,
  newKeyId,
} from '#core/domain/tenant/service-key.ts';
import {
  API_KEY_STATUSES,
  countApiKeys,
  findApiKey,
  insertApiKey,
  replaceApiKeySecret,
  revokeApiKey,
  scanApiKeys,
  updateApiKey,
  type ApiKey as ApiKeyRecord,
  type ListedApiKey,
} from '#core/store/tenants/api-keys.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { assertBelow } from '../changes/assert-below.ts';
import { changeTenant, createInTenant, type Change } from '../changes/change-tenant.ts';
import { iso } from '../http/iso.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { AdminDeps } from './admin-deps.ts';
import type { MemberCaller } from '../auth/auth.ts';
import { filteredPage } from '../http/lists/filtered-page.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { idempotencyKeyField } from '../http/routes/idempotency.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { pageOf, pageQuery } from '../http/lists/page.ts';
import { graceSecondsField, text } from '../http/input/fields.ts';
import { timeField } from '../http/input/time-field.ts';

const tag = 'API keys';
const auth = { kind: 'bearer', role: 'admin' } as const;
const NONCE_BYTES = 16;
const DEFAULT_SCOPES: readonly Scope[] = ['messages:send', 'messages:read'];

const fields = {
  name: text(2, 80),
  scopes: z
    .array(z.enum(SCOPES))
    .min(1, 'Must name at least one scope')
    .max(20, 'Must have at most 20 items')
    .describe(
      '`messages:send`: send, cancel and reschedule messages. `messages:read`: read messages, their attempts and events. `events:read`: read the feed of all events.',
    ),
  rateLimitRpm: z
    .int()
    .min(1)
    .max(60_000)
    .nullable()
    .describe("Send requests per minute. Null: the plan's limit."),
  expiresAt: timeField().nullable().describe('Must be in the future. Null: the key does not expire.'),
};

const CreateApiKey = z
  .object({
    name: fields.name,
    mode: z
      .enum(KEY_MODES)
      .default('live')
      .describe('`test`: calls no provider, and does not count against `messagesPerDay`.'),
    scopes: fields.scopes.default([...DEFAULT_SCOPES]),
    rateLimitRpm: fields.rateLimitRpm.default(null),
    expiresAt: fields.expiresAt.default(null),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'CreateApiKey',
    description: 'A key to create.',
    examples: [{ name: 'Shop backend', mode: 'live', scopes: ['messages:send'], rateLimitRpm: 600 }],
  });

const UpdateApiKey = z
  .object({
    name: fields.name.optional(),
    scopes: fields.scopes.optional(),
    rateLimitRpm: fields.rateLimitRpm.optional(),
    expiresAt: fields.expiresAt.optional(),
  })
  .meta({
    id: 'UpdateApiKey',
    description: 'Changes to a key.',
    examples: [{ name: 'Shop backend, old', rateLimitRpm: null }],
  });

const RotateApiKey = z
  .object({
    graceSeconds: graceSecondsField('For how many more seconds the previous key is valid.'),
    idempotencyKey: idempotencyKeyField,
  })
  .meta({
    id: 'RotateApiKey',
    description: 'How to rotate a key.',
    examples: [{ graceSeconds: 86_400 }],
  });

const EXAMPLE = {
  id: '0b8f6f0e-53c1-4a6e-8f0b-5e1d7c2a9b34',
  name: 'Shop backend',
  prefix: 'dsp_live_0M5xq9LkT2aBcD3e',
  mode: 'live',
  scopes: ['messages:send'],
  rateLimitRpm: 600,
  expiresAt: null,
  createdAt: '2026-01-15T09:30:00.000Z',
  lastUsedAt: null,
  status: 'active',
  graceUntil: null,
};

const ApiKey = z
  .object({
    id: z.uuid(),
    name: z.string(),
    prefix: z.string().describe('The part of the key that may be shown.'),
    mode: z.enum(KEY_MODES),
    scopes: z.array(z.enum(SCOPES)),
    rateLimitRpm: z.int().min(1).max(60_000).nullable(),
    expiresAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    lastUsedAt: z.iso.datetime().nullable(),
    status: z.enum(API_KEY_STATUSES),
    graceUntil: z.iso
      .datetime()
      .nullable()
      .describe('While `rotating`: until when the previous key is also valid.'),
    ...warningsField,
  })
  .meta({ id: 'ApiKey', description: 'A key of a tenant, without its secret.', examples: [EXAMPLE] });
const ApiKeyWithSecret = ApiKey.extend({
  key: z.string().describe('The key itself. Shown only once.'),
}).meta({
  id: 'ApiKeyWithSecret',
  description: 'A key with its secret.',
  examples: [{ ...EXAMPLE, key: `${EXAMPLE.prefix}_${'0'.repeat(43)}_000000` }],
});
type ApiKeyWithSecret = z.output<typeof ApiKeyWithSecret>;

export function apiKeyRoutes(deps: AdminDeps): RouteModule[] {
  return [create(deps), list(deps), read(deps), update(deps), revoke(deps), rotate(deps)];
}

function create(deps: AdminDeps): RouteModule {
  const { subkeys, notify } = deps;
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/api-keys',
    operation: 'createApiKey',
    summary: 'Create a key',
    description:
      'The answer contains the key itself. It is shown only once: only a fingerprint of it is stored.',
    tag,
    auth,
    idempotent: true,
    body: CreateApiKey,
    status: 201,
    response: ApiKeyWithSecret,
    errors: ['plan_limit_reached', 'idempotency_mismatch'],
    handler: async ({ caller, body, idempotency, request }) => {
      const result = await createInTenant<ApiKeyWithSecret>(
        deps,
        scopeOf(caller, request),
        idempotency,
        async ({ tx, tenant, audit }) => {
          assertBelow(await countApiKeys(caller.tenant.id, tx), tenant.limits.apiKeysMax, 'apiKeysMax');
          const { id, keyId, nonce } = {
            id: newId<ApiKeyId>(),
            keyId: newKeyId(),
            nonce: randomBytes(NONCE_BYTES),
          };
          const secret = deriveKeySecret(subkeys['key-secret'], id, nonce);
          const record = await insertApiKey(caller.tenant.id, tx, {
            id,
            keyId,
            name: body.name,
            mode: body.mode,
            scopes: inOrder(body.scopes),
            rateLimitRpm: body.rateLimitRpm,
            expiresAt: futureTime(body.expiresAt),
            secretHash: hashKeySecret(subkeys['key-hash'], secret),
          });
          await audit('api_key.created', id, {}, { name: record.name });
          const stored = viewApiKey(record);
          return { status: 201, body: shown(stored, secret), stored, nonce };
        },
        (stored, nonce) => shown(stored, deriveKeySecret(subkeys['key-secret'], stored.id, nonce)),
      );
      if (!result.replayed) notify('key', { tenantId: caller.tenant.id, id: result.body.id });
      return result;
    },
  });
}

function list({ read, cursors }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/api-keys',
    operation: 'listApiKeys',
    summary: 'List keys',
    description:
      'Newest first, including revoked and expired keys. A page reads at most 5,000 keys or 100 ms: with a filter it may be short, even empty, and still have a `nextCursor`.',
    tag,
    auth,
    query: z.object({
      ...pageQuery,
      mode: z.enum(KEY_MODES).optional().describe('Only keys of this mode.'),
      status: z.enum(API_KEY_STATUSES).optional().describe('Only keys in this state.'),
    }),
    response: pageOf(ApiKey),
    errors: ['invalid_cursor'],
    handler: async ({ caller: { tenant }, query: { limit, cursor, ...filter }, gone }) => {
      const pages = { list: 'api-keys', of: tenant.id, ...filter };
      const before = cursors.position<number>(pages, cursor);
      const { rows, next } = await read(tenant.id, gone(), (tx) =>
        filteredPage({
          limit,
          before,
          isFiltered: Object.values(filter).some((value) => value !== undefined),
          positionOf: ({ seq }: ListedApiKey) => seq,
          scan: (range) => scanApiKeys(tenant.id, tx, filter, range),
        }),
      );
      return {
        body: {
          items: rows.map(viewApiKey),
          nextCursor: cursors.next(pages, next),
        },
      };
    },
  });
}

function read({ sql }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/api-keys/:id',
    operation: 'getApiKey',
    summary: 'Show a key',
    description: 'Everything but the key itself.',
    tag,
    auth,
    params: IdParams,
    response: ApiKey,
    handler: async ({ caller: { tenant }, params }) => {
      const key = orNotFound(
        await withTenant(sql, tenant.id, (tx) => findApiKey(tenant.id, tx, params.id as ApiKeyId)),
      );
      return { body: viewApiKey(key) };
    },
  });
}

function update(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'PATCH',
    path: '/v1/admin/api-keys/:id',
    operation: 'updateApiKey',
    summary: 'Change a key',
    description:
      'Absent fields keep their values; null removes a limit or an expiry. The key itself stays valid. An expired or revoked key cannot be changed: 409 `invalid_state`.',
    tag,
    auth,
    params: IdParams,
    body: UpdateApiKey,
    response: ApiKey,
    errors: ['invalid_state'],
    handler: async ({ caller, params, body, request }) => {
      const id = params.id as ApiKeyId;
      const { name, rateLimitRpm, expiresAt } = body;
      const scopes = body.scopes === undefined ? undefined : inOrder(body.scopes);
      const key = await changeTenant(deps, scopeOf(caller, request), async (change) => {
        const before = await requireApiKey(caller, change, id);
        if (Object.values(body).every((value) => value === undefined)) return before;
        assertInUse(before);
        const expiry = expiresAt === undefined ? undefined : futureTime(expiresAt);
        await updateApiKey(caller.tenant.id, change.tx, id, {
          name,
          scopes,
          rateLimitRpm,
          expiresAt: expiry,
        });
        const after = await requireApiKey(caller, change, id);
        const facts = {
          ...(scopes === undefined ? {} : { scopes }),
          ...(expiry === undefined ? {} : { expiresAt: iso(expiry) }),
        };
        const changes = auditChanges(settingsOf(before), settingsOf(after));
        await change.audit('api_key.updated', id, facts, { name: before.name, changes });
        return after;
      });
      deps.notify('key', { tenantId: caller.tenant.id, id });
      return { body: viewApiKey(key) };
    },
  });
}

function revoke(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/api-keys/:id',
    operation: 'revokeApiKey',
    summary: 'Revoke a key permanently',
    description: 'Its record stays, with status `revoked`. Repeating the call changes nothing.',
    tag,
    auth,
    params: IdParams,
    handler: async ({ caller, params, request }) => {
      const id = params.id as ApiKeyId;
      await changeTenant(deps, scopeOf(caller, request), async (change) => {
        const { name } = await requireApiKey(caller, change, id);
        if (await revokeApiKey(caller.tenant.id, change.tx, id))
          await change.audit('api_key.revoked', id, {}, { name });
      });
      deps.notify('key', { tenantId: caller.tenant.id, id });
      return { body: undefined };
    },
  });
}

function rotate(deps: AdminDeps): RouteModule {
  const { subkeys } = deps;
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/api-keys/:id/rotate',
    operation: 'rotateApiKey',
    summary: 'Give a key a new secret',
    description:
      'Returns the new key. The previous key stays valid for `graceSeconds`, 24 hours by default; with 0 it is refused at once. During that time another rotation returns 409 `invalid_state`: at most two keys are valid at a time. A rotation with 0 ends all previous keys at once.',
    tag,
    auth,
    params: IdParams,
    idempotent: true,
    body: RotateApiKey,
    response: ApiKeyWithSecret,
    errors: ['invalid_state', 'idempotency_mismatch'],
    handler: async ({ caller, params, body: { graceSeconds }, idempotency, request }) => {
      const id = params.id as ApiKeyId;
      const result = await createInTenant<ApiKeyWithSecret>(
        deps,
        scopeOf(caller, request),
        idempotency,
        async (change) => {
          const before = await requireApiKey(caller, change, id);
          assertInUse(before);
          if (graceSeconds > 0) assertSettled(before);
          const nonce = randomBytes(NONCE_BYTES);
          const secret = deriveKeySecret(subkeys['key-secret'], id, nonce);
          const hash = hashKeySecret(subkeys['key-hash'], secret);
          const graceUntil = graceSeconds === 0 ? null : new Date(Date.now() + graceSeconds * 1_000);
          await replaceApiKeySecret(caller.tenant.id, change.tx, id, hash, graceUntil);
          const facts = { graceUntil: iso(graceUntil) };
          const details = { name: before.name, changes: [{ field: 'key' }] };
          await change.audit('api_key.rotated', id, facts, details);
          const stored = viewApiKey(await requireApiKey(caller, change, id));
          return { status: 200, body: shown(stored, secret), stored, nonce };
        },
        (stored, nonce) => shown(stored, deriveKeySecret(subkeys['key-secret'], stored.id, nonce)),
      );
      if (!result.replayed) deps.notify('key', { tenantId: caller.tenant.id, id });
      return result;
    },
  });
}

/**
 * Checked when the key is written, so that the replay of an old request is not refused for a time that has passed since.
 */
function futureTime(text: string | null): Date | null {
  if (text === null) return null;
  const time = new Date(text);
  if (time.getTime() > Date.now()) return time;
  throw validationFailed({ field: 'expiresAt', rule: 'min', message: 'Must lie in the future' });
}

function inOrder(scopes: readonly Scope[]): Scope[] {
  return SCOPES.filter((scope) => scopes.includes(scope));
}

async function requireApiKey(caller: MemberCaller, { tx }: Change, id: ApiKeyId): Promise<ApiKeyRecord> {
  return orNotFound(await findApiKey(caller.tenant.id, tx, id));
}

/** @throws AppError `invalid_state` for a key that is revoked for good. */
function assertInUse({ status }: ApiKeyRecord): void {
  if (status !== 'revoked' && status !== 'expired') return;
  throw new AppError('invalid_state', { message: `API key is ${status}` });
}

/** Keeps the grace period of the previous secret. @throws AppError `invalid_state` */
function assertSettled({ graceUntil }: ApiKeyRecord): void {
  if (graceUntil === null) return;
  const message = `API key is being rotated: its former secret is good until ${graceUntil.toISOString()}. Wait until then, or rotate with graceSeconds 0, which ends all former secrets at once`;
  throw new AppError('invalid_state', { message });
}

/** Returns the settings that an update can change. */
function settingsOf(key: ApiKeyRecord): Record<string, unknown> {
  const { name, scopes, rateLimitRpm, expiresAt } = viewApiKey(key);
  return { name, scopes, rateLimitRpm, expiresAt };
}

function viewApiKey(key: ApiKeyRecord): z.output<typeof ApiKey> {
  return {
    id: key.id,
    name: key.name,
    prefix: keyPrefix(key.mode, key.keyId),
    mode: key.mode,
    scopes: [...key.scopes],
    rateLimitRpm: key.rateLimitRpm,
    expiresAt: iso(key.expiresAt),
    createdAt: key.createdAt.toISOString(),
    lastUsedAt: iso(key.lastUsedAt),
    status: key.status,
    graceUntil: iso(key.graceUntil),
  };
}

function shown(view: z.output<typeof ApiKey>, secret: string): ApiKeyWithSecret {
  const keyId = view.prefix.slice(keyPrefix(view.mode, '').length);
  return { ...view, key: formatServiceKey({ mode: view.mode, keyId, secret }) };
}
