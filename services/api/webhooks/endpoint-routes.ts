import { z } from 'zod';
import { ENDPOINT_STATUSES } from '#core/domain/webhooks/endpoint-state.ts';
import { newId } from '#core/domain/storage/ids.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import {
  countEndpoints,
  deleteEndpoint,
  insertEndpoint,
  affectsCalls,
  listEndpoints,
  updateEndpoint,
} from '#core/store/webhooks/webhook-endpoints.ts';
import { assertBelow } from '../changes/assert-below.ts';
import { createInTenant } from '../changes/change-tenant.ts';
import { earlierAnswer } from '../http/routes/earlier-answer.ts';
import { scopeOf } from '../changes/change-scope.ts';
import { pageFrom } from '../http/lists/cursor.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { pageOf, pageQuery } from '../http/lists/page.ts';
import {
  assertCertificate,
  assertHeadersStay,
  assertUrl,
  changeEndpoint,
  changesOf,
  assertReleased,
  encryptCertificate,
  nameOf,
  requireEndpoint,
} from './endpoint-change.ts';
import { CreateEndpoint, UpdateEndpoint } from './endpoint-schema.ts';
import { Endpoint, EndpointWithSecret, viewEndpoint } from './endpoint-view.ts';
import { shownSecrets } from './shown-secret.ts';
import { firstSigningKey } from './signing-key.ts';
import type { WebhookDeps } from './webhook-deps.ts';

const tag = 'Webhooks';
const writer = { kind: 'bearer', role: 'admin' } as const;
const reader = { kind: 'bearer', role: 'viewer' } as const;

/** Routes for endpoints and their settings. */
export function endpointRoutes(deps: WebhookDeps): RouteModule[] {
  return [create(deps), list(deps), read(deps), update(deps), remove(deps)];
}

function create(deps: WebhookDeps): RouteModule {
  const { keyring, notify } = deps;
  const { make, restore } = shownSecrets(deps);
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/webhook-endpoints',
    operation: 'createWebhookEndpoint',
    summary: 'Create an endpoint that receives events',
    description:
      'The endpoint receives the events that happen from now on and match its filters, each as a POST of JSON signed by Standard Webhooks. The answer contains the secret of the signatures, which is shown only once.',
    tag,
    auth: writer,
    idempotent: true,
    body: CreateEndpoint,
    status: 201,
    response: EndpointWithSecret,
    errors: ['plan_limit_reached', 'idempotency_mismatch', 'url_blocked', 'dependency_unavailable'],
    handler: async ({ caller, body, idempotency, request }) => {
      const tenantId = caller.tenant.id;
      const { clientCertificate, ...settings } = body;
      // Looks for a replay first: the operator may have changed the allowed addresses since.
      const earlier = await earlierAnswer<EndpointWithSecret>(deps, tenantId, idempotency, restore);
      if (earlier !== null) return earlier;
      assertUrl(body.url, deps.urlRules);
      assertCertificate(clientCertificate);
      const id = newId<string>();
      const { nonce, secret, ciphertext } = await make(tenantId, id);
      const endpoint = {
        ...settings,
        id,
        secret: ciphertext,
        clientCertificate: (await encryptCertificate(keyring, tenantId, id, clientCertificate)) ?? null,
      };
      const storeKey = await firstSigningKey(deps, tenantId, body.signatures);
      const result = await createInTenant<EndpointWithSecret>(
        deps,
        scopeOf(caller, request),
        idempotency,
        async ({ tx, tenant, audit }) => {
          assertBelow(
            await countEndpoints(tenantId, tx),
            tenant.limits.webhookEndpointsMax,
            'webhookEndpointsMax',
          );
          await storeKey(tx);
          await insertEndpoint(tenantId, tx, endpoint);
          await audit('webhook_endpoint.created', id, {}, { name: nameOf(body) });
          const stored = viewEndpoint(await requireEndpoint(tenantId, tx, id), caller.role);
          return { status: 201, body: { ...stored, secret }, stored, nonce };
        },
        restore,
      );
      if (!result.replayed) notify('endpoint', { tenantId, id, changed: 'settings' });
      return result;
    },
  });
}

function list({ read, cursors }: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/webhook-endpoints',
    operation: 'listWebhookEndpoints',
    summary: 'List endpoints',
    description: 'Newest first.',
    tag,
    auth: reader,
    query: z.object({
      ...pageQuery,
      status: z.enum(ENDPOINT_STATUSES).optional().describe('Only endpoints in this state.'),
    }),
    response: pageOf(Endpoint),
    errors: ['invalid_cursor'],
    handler: async ({ caller: { tenant, role }, query: { limit, cursor, ...filter }, gone }) => {
      const pages = { list: 'webhook-endpoints', of: tenant.id, ...filter };
      const before = cursors.position<number>(pages, cursor);
      const rows = await read(tenant.id, gone(), (tx) =>
        listEndpoints(tenant.id, tx, { ...filter, before, most: limit + 1 }),
      );
      return {
        body: pageFrom(
          rows,
          limit,
          (endpoint) => viewEndpoint(endpoint, role),
          ({ number }) => cursors.next(pages, number),
        ),
      };
    },
  });
}

function read({ sql }: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/webhook-endpoints/:id',
    operation: 'getWebhookEndpoint',
    summary: 'Show an endpoint',
    description: 'Everything but its secrets.',
    tag,
    auth: reader,
    params: IdParams,
    response: Endpoint,
    handler: async ({ caller: { tenant, role }, params }) => {
      const endpoint = await withTenant(sql, tenant.id, (tx) => requireEndpoint(tenant.id, tx, params.id));
      return { body: viewEndpoint(endpoint, role) };
    },
  });
}

function update(deps: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'PATCH',
    path: '/v1/admin/webhook-endpoints/:id',
    operation: 'updateWebhookEndpoint',
    summary: 'Change an endpoint',
    description:
      'Absent fields keep their values; null removes a value. New filters apply to events after the change, and possibly to events of the half minute before it that the endpoint did not receive; all other changes apply to every call that begins more than five seconds after the change. With `ordered: false`, events that waited for earlier ones are due at once; of more than ten thousand the others follow within minutes, and until then `ordered: true` is 409 `invalid_state`. A `url` of another server requires `headers` in the same call if some of them contain a secret.',
    tag,
    auth: writer,
    params: IdParams,
    body: UpdateEndpoint,
    response: Endpoint,
    errors: ['url_blocked', 'dependency_unavailable', 'invalid_state'],
    handler: async ({ caller, params: { id }, body, request }) => {
      const tenantId = caller.tenant.id;
      const { sql, keyring } = deps;
      if (body.url !== undefined) assertUrl(body.url, deps.urlRules);
      assertCertificate(body.clientCertificate);
      const before = await withTenant(sql, tenantId, (tx) => requireEndpoint(tenantId, tx, id));
      if (Object.values(body).every((value) => value === undefined))
        return { body: viewEndpoint(before, caller.role) };
      const signatures = body.signatures === null ? (['v1'] as const) : body.signatures;
      const { clientCertificate, ...settings } = body;
      const change = {
        ...settings,
        finalOnly: body.finalOnly === null ? false : body.finalOnly,
        ordered: body.ordered === null ? false : body.ordered,
        maskRecipients: body.maskRecipients === null ? false : body.maskRecipients,
        channels: body.channels === null ? [] : body.channels,
        tags: body.tags === null ? [] : body.tags,
        headers: body.headers === null ? {} : body.headers,
        signatures,
        clientCertificate: await encryptCertificate(keyring, tenantId, id, clientCertificate),
      };
      const storeKey = await firstSigningKey(deps, tenantId, signatures);
      const after = await changeEndpoint(
        deps,
        { caller, id, request, changed: affectsCalls(change) ? 'secrets' : 'settings' },
        async ({ tx, audit }, current) => {
          assertHeadersStay(current, change);
          if (change.ordered === true && !current.ordered) await assertReleased(tenantId, tx, id);
          await storeKey(tx);
          await updateEndpoint(tenantId, tx, id, change);
          const changed = await requireEndpoint(tenantId, tx, id);
          const isNewCertificate = typeof change.clientCertificate === 'string';
          const changes = [
            ...changesOf(current, changed),
            ...(isNewCertificate ? [{ field: 'clientCertificate' }] : []),
          ];
          await audit('webhook_endpoint.updated', id, {}, { name: nameOf(current), changes });
          return changed;
        },
      );
      return { body: viewEndpoint(after, caller.role) };
    },
  });
}

function remove(deps: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'DELETE',
    path: '/v1/admin/webhook-endpoints/:id',
    operation: 'deleteWebhookEndpoint',
    summary: 'Delete an endpoint',
    description:
      'Its secrets are removed at once, and pending deliveries are dropped: within five seconds no more calls begin.',
    tag,
    auth: writer,
    params: IdParams,
    handler: async ({ caller, params: { id }, request }) => {
      await changeEndpoint(
        deps,
        { caller, id, request, changed: 'secrets' },
        async ({ tx, audit }, endpoint) => {
          await deleteEndpoint(caller.tenant.id, tx, id);
          await audit('webhook_endpoint.deleted', id, {}, { name: nameOf(endpoint) });
        },
      );
      return { body: undefined };
    },
  });
}
