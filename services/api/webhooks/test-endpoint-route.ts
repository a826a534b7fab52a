import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { AppError, unavailable } from '#core/domain/fault/app-error.ts';
import { WEBHOOK_EVENT_SCHEMAS, type PingEnvelope } from '#core/domain/webhooks/event-schemas.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import {
  askEndpointTest,
  dropEndpointTest,
  findEndpointTest,
  WAITING_TESTS_MAX,
} from '#core/store/webhooks/endpoint-tests.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { abandoned } from '../http/errors.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../http/routes/route.ts';
import { exampleOf } from '../http/example-of.ts';
import { changeEndpoint, nameOf } from './endpoint-change.ts';
import type { WebhookDeps } from './webhook-deps.ts';

/** Slightly longer than a call may take plus the time until a worker starts it. */
const WAIT_MS = 20_000;
const LOOK_EVERY_MS = 250;

const PING = exampleOf(WEBHOOK_EVENT_SCHEMAS['test.ping']) as PingEnvelope;
const Headers = z.record(z.string(), z.string());

const TestedEndpoint = z
  .object({
    succeeded: z.boolean().describe('Whether the endpoint answered with a 2xx.'),
    request: z
      .object({ headers: Headers, body: z.string() })
      .meta({ id: 'WebhookTestRequest', description: 'The request that was sent.' }),
    response: z
      .object({ status: z.int().min(100).max(999), headers: Headers, body: z.string().nullable() })
      .meta({
        id: 'WebhookTestResponse',
        description: 'The answer of the endpoint, with the first KiB of the body, null if it was empty.',
      })
      .nullable()
      .describe('Null if there was no answer.'),
    error: z
      .string()
      .nullable()
      .describe('Why there was no answer: `timeout`, `tls`, `dns`, `egress_blocked` and others.'),
    durationMs: z.int().min(0).max(INT32_MAX),
    ...warningsField,
  })
  .meta({
    id: 'TestedWebhookEndpoint',
    description: 'A test call to an endpoint.',
    examples: [
      {
        succeeded: true,
        request: {
          headers: {
            'content-type': 'application/json',
            'webhook-id': PING.id,
            'webhook-timestamp': '1768469402',
            'webhook-signature': `v1,${'A'.repeat(43)}=`,
          },
          body: JSON.stringify(PING),
        },
        response: { status: 200, headers: { 'content-type': 'text/plain' }, body: 'ok' },
        error: null,
        durationMs: 84,
      },
    ],
  });

/** Makes a worker call an endpoint and waits for the result: the api itself makes no outbound calls. */
export function testEndpointRoute(deps: WebhookDeps): RouteModule {
  const { sql } = deps;
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/webhook-endpoints/:id/test',
    operation: 'testWebhookEndpoint',
    summary: 'Test an endpoint',
    description:
      'Sends the endpoint an event of type `test.ping`, signed like all others, once and at once, in any state of the endpoint. The event is in no feed. The answer takes as long as the call, at most 20 seconds. 409 `invalid_state`: five such calls are already pending.',
    tag: 'Webhooks',
    auth: { kind: 'bearer', role: 'admin' },
    params: IdParams,
    response: TestedEndpoint,
    errors: ['invalid_state', 'dependency_unavailable'],
    handler: async ({ caller, params: { id }, request, gone }) => {
      const tenantId = caller.tenant.id;
      const test = await changeEndpoint(
        deps,
        { caller, id, request, changed: 'test' },
        async ({ tx, audit }, endpoint) => {
          const asked = await askEndpointTest(tenantId, tx, id);
          if (asked === undefined) {
            const message = `The endpoint is being tried out ${WAITING_TESTS_MAX} times already`;
            throw new AppError('invalid_state', { message });
          }
          await audit('webhook_endpoint.tested', id, {}, { name: nameOf(endpoint) });
          return asked;
        },
      );
      try {
        return { body: TestedEndpoint.parse(await resultOf(tenantId, test, gone())) };
      } finally {
        await withTenant(sql, tenantId, (tx) => dropEndpointTest(tenantId, tx, test)).catch(() => undefined);
      }
    },
  });

  /**
   * @throws AppError `not_found` when the endpoint was deleted meanwhile, because no worker calls it then;
   * `dependency_unavailable` when no worker has answered in time.
   */
  async function resultOf(tenantId: TenantId, test: string, gone: AbortSignal): Promise<unknown> {
    const until = performance.now() + WAIT_MS;
    while (performance.now() < until) {
      if (gone.aborted) throw abandoned();
      const result = await withTenant(sql, tenantId, (tx) => findEndpointTest(tenantId, tx, test));
      if (result === null) throw new AppError('not_found');
      if (result !== undefined) return result;
      await sleep(LOOK_EVERY_MS, undefined, { signal: gone }).catch(() => undefined);
    }
    throw unavailable();
  }
}
