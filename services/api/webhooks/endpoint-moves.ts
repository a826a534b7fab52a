import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { moveEndpointTo, replaceEndpointSecret } from '#core/store/webhooks/webhook-endpoints.ts';
import { createInTenant } from '../changes/change-tenant.ts';
import { earlierAnswer } from '../http/routes/earlier-answer.ts';
import { iso } from '../http/iso.ts';
import { scopeOf } from '../changes/change-scope.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { changeEndpoint, nameOf, requireEndpoint, type EndpointCall } from './endpoint-change.ts';
import { RotateSecret } from './endpoint-schema.ts';
import { Endpoint, RotatedSecret, viewEndpoint } from './endpoint-view.ts';
import { shownSecrets } from './shown-secret.ts';
import type { WebhookDeps } from './webhook-deps.ts';

const tag = 'Webhooks';
const auth = { kind: 'bearer', role: 'admin' } as const;

/** The routes for actions on an endpoint other than changing its settings. */
export function endpointMoveRoutes(deps: WebhookDeps): RouteModule[] {
  return [rotate(deps), pause(deps), resume(deps)];
}

function rotate(deps: WebhookDeps): RouteModule {
  const { sql, notify } = deps;
  const { make, restore } = shownSecrets(deps);
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/webhook-endpoints/:id/rotate-secret',
    operation: 'rotateWebhookSecret',
    summary: 'Give an endpoint a new secret',
    description:
      'Returns the new secret, which is shown only once. For `graceSeconds`, 24 hours by default, calls are also signed with the previous secret; with 0 it no longer signs. Older secrets no longer sign either. Within five seconds no call begins that is signed otherwise.',
    tag,
    auth,
    params: IdParams,
    idempotent: true,
    body: RotateSecret,
    response: RotatedSecret,
    errors: ['idempotency_mismatch', 'dependency_unavailable'],
    handler: async ({ caller, params: { id }, body: { graceSeconds }, idempotency, request }) => {
      const tenantId = caller.tenant.id;
      const earlier = await earlierAnswer<RotatedSecret>(deps, tenantId, idempotency, restore);
      if (earlier !== null) return earlier;
      await withTenant(sql, tenantId, (tx) => requireEndpoint(tenantId, tx, id));
      const { nonce, secret, ciphertext } = await make(tenantId, id);
      const result = await createInTenant<RotatedSecret>(
        deps,
        scopeOf(caller, request),
        idempotency,
        async ({ tx, audit }) => {
          const before = await requireEndpoint(tenantId, tx, id);
          await replaceEndpointSecret(tenantId, tx, id, ciphertext, graceSeconds);
          const { secretVersion, previousSecretUntil } = await requireEndpoint(tenantId, tx, id);
          const until = iso(previousSecretUntil);
          const details = { name: nameOf(before), changes: [{ field: 'secret' }] };
          await audit('webhook_endpoint.secret_rotated', id, { graceUntil: until }, details);
          const stored = { id, secretVersion, previousSecretUntil: until };
          return { status: 200, body: { ...stored, secret }, stored, nonce };
        },
        restore,
      );
      if (!result.replayed) notify('endpoint', { tenantId, id, changed: 'secrets' });
      return result;
    },
  });
}

function pause(deps: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/webhook-endpoints/:id/pause',
    operation: 'pauseWebhookEndpoint',
    summary: 'Pause an endpoint',
    description:
      'The endpoint is not called until it is resumed: within five seconds no more calls begin. Its events wait in the meantime. An endpoint that is already paused or disabled does not change.',
    tag,
    auth,
    params: IdParams,
    response: Endpoint,
    handler: async ({ caller, params, request }) => ({
      body: await move(deps, { caller, id: params.id, request }, 'pause'),
    }),
  });
}

function resume(deps: WebhookDeps): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/webhook-endpoints/:id/resume',
    operation: 'resumeWebhookEndpoint',
    summary: 'Resume an endpoint',
    description:
      'A paused, disabled or failing endpoint becomes active again and is called at once for the events that waited.',
    tag,
    auth,
    params: IdParams,
    response: Endpoint,
    handler: async ({ caller, params, request }) => ({
      body: await move(deps, { caller, id: params.id, request }, 'resume'),
    }),
  });
}

/** Idempotent: a repeated call changes nothing. */
async function move(deps: WebhookDeps, call: EndpointCall, name: 'pause' | 'resume'): Promise<Endpoint> {
  const { caller, id } = call;
  const tenantId = caller.tenant.id;
  const endpoint = await changeEndpoint(
    deps,
    { ...call, changed: 'settings' },
    async ({ tx, audit }, before) => {
      if (!(await moveEndpointTo(tenantId, tx, id, name))) return before;
      const after = await requireEndpoint(tenantId, tx, id);
      const changes = auditChanges({ status: before.status }, { status: after.status });
      const action = name === 'pause' ? 'webhook_endpoint.paused' : 'webhook_endpoint.resumed';
      await audit(action, id, {}, { name: nameOf(before), changes });
      return after;
    },
  );
  return viewEndpoint(endpoint, caller.role);
}
