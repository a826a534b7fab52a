import { z } from 'zod';
import { AppError, validationFailed, type ErrorDetail } from '#core/domain/fault/app-error.ts';
import { auditChanges } from '#core/domain/tenant/audit-change.ts';
import { CHANNELS, type Channel } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import {
  FAILOVER_CLASSES,
  FAILOVER_DEFAULT,
  MAX_WAIT_MS_MAX,
  RECEIPT_WAIT_MS_MAX,
  RECEIPT_WAIT_MS_MIN,
  ROUTE_STEPS_MAX,
  ROUTE_STRATEGIES,
  routeByAge,
  STEP_WEIGHT_MAX,
} from '#core/domain/routing/route.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { listSendingAccounts } from '#core/store/messages.ts';
import { listChannelAccounts } from '#core/store/provider-accounts.ts';
import { findRoute, storeRoute, type NewRoute, type StoredRoute } from '#core/store/routes.ts';
import { withTenant } from '#core/store/tenant-scope.ts';
import { assertMatches, etagOf } from '../http/routes/if-match.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { changeTenant } from '../changes/change-tenant.ts';
import { iso } from '../http/iso.ts';
import { scopeOf } from '../changes/change-scope.ts';
import type { AdminDeps } from './admin-deps.ts';

const tag = 'Providers';

export const ChannelParams = z.object({ channel: z.enum(CHANNELS).describe('Channel of the route.') });

const providerId = z.uuid().transform((id) => id.toLowerCase());
const strategy = z
  .enum(ROUTE_STRATEGIES)
  .describe(
    '`priority`: the first step whose account can be used. `weighted`: steps are drawn in proportion to their weights, by a hash of the message id and the version of the route.',
  );
const weight = z
  .int()
  .min(1)
  .max(STEP_WEIGHT_MAX)
  .describe('Share of the messages, in proportion to the other steps. Used only with `weighted`.');
const failoverOn = z
  .array(z.enum(FAILOVER_CLASSES))
  .describe(
    'After a refusal of these classes the next step is called at once. An error in the recipient or the content occurs with any account, and after a call without an answer no other account is called.',
  );
const maxWaitMs = z
  .int()
  .min(0)
  .max(MAX_WAIT_MS_MAX)
  .nullable()
  .describe(
    'A message that is due for longer than this, in milliseconds, while calls to its account are held back or its rate is used up, moves to the next step that can be called. Checked every few seconds. Null: a message waits for its account.',
  );
const receiptTimeoutMs = z
  .int()
  .min(RECEIPT_WAIT_MS_MIN)
  .max(RECEIPT_WAIT_MS_MAX)
  .nullable()
  .describe(
    'If no receipt arrives within this time, in milliseconds, after an account accepted a message, the message moves to the next step that was not called for it yet and can be called. It may arrive twice: its `duplicateRisk` is true. Receipts of each copy count, and the first with `delivered` decides. A message does not move if it has `deliveryGuarantee: at_most_once`, a `providerId` or `contentRetention: discard`, if it was sent with a test key, if its account reports no receipts, if it had a call without an answer, if it has expired, or if its receipts reported anything but that it is on its way. If no step is left, the message stays with its account. The route in force at the end of this time applies: if its time is longer, the message waits longer; if it has none, the message stays. Null: it always stays.',
  );
const version = z.int().min(0).max(INT32_MAX);

const EXAMPLE_STEPS = [
  { providerId: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10', weight: 1 },
  { providerId: '8c1d7e5b-6a0f-4b6a-8f0c-1d2e3f4a5b6c', weight: 1 },
];

const Route = z
  .object({
    channel: z.enum(CHANNELS),
    strategy,
    steps: z
      .array(z.object({ providerId: z.uuid().describe('A provider account.'), weight }))
      .describe('In the order in which they are considered.'),
    failoverOn,
    maxWaitMs,
    receiptTimeoutMs,
    version: version.describe(
      'Increases with every change. 0: no route was set, and the steps are the accounts by age.',
    ),
    updatedAt: z.iso.datetime().nullable().describe('Null until a route is set.'),
    ...warningsField,
  })
  .meta({
    id: 'Route',
    description: 'Which accounts may send the messages of a channel, and how an account is chosen.',
    examples: [
      {
        channel: 'sms',
        strategy: 'priority',
        steps: EXAMPLE_STEPS,
        failoverOn: [...FAILOVER_DEFAULT],
        maxWaitMs: 60_000,
        receiptTimeoutMs: 120_000,
        version: 3,
        updatedAt: '2026-01-15T09:30:00.000Z',
      },
    ],
  });

export const SetRoute = z
  .object({
    strategy,
    steps: z
      .array(
        z.object({
          providerId: providerId.describe(
            'A provider account of the channel. A deleted one only if the current route has it.',
          ),
          weight: weight.default(1),
        }),
      )
      .min(1)
      .max(ROUTE_STEPS_MAX)
      .describe('Each account once, in the order in which they are considered.'),
    failoverOn: failoverOn
      .max(FAILOVER_CLASSES.length)
      .transform((classes) => FAILOVER_CLASSES.filter((one) => classes.includes(one)))
      .default([...FAILOVER_DEFAULT]),
    maxWaitMs: maxWaitMs.default(null),
    receiptTimeoutMs: receiptTimeoutMs.default(null),
    version: version
      .optional()
      .describe(
        'The version that the change is based on, instead of the header `If-Match`: a route can be sent back as it was read.',
      ),
    channel: z.enum(CHANNELS).optional().describe('As it was read. The channel in the path counts.'),
    updatedAt: z.string().optional().describe('As it was read. Ignored.'),
  })
  .meta({
    id: 'SetRoute',
    description: 'The route to set.',
    examples: [{ strategy: 'priority', steps: EXAMPLE_STEPS }],
  });

/** The routing of messages to provider accounts. */
export function messageRoutes(deps: AdminDeps): RouteModule[] {
  return [read(deps), set(deps)];
}

function read({ sql }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/routes/:channel',
    operation: 'getRoute',
    summary: "Show a channel's route",
    description:
      'Until a route is set, it has version 0, and its steps are the accounts that can be used, the oldest first. The header `ETag` contains its version.',
    tag,
    auth: { kind: 'bearer', role: 'viewer' },
    params: ChannelParams,
    versioned: true,
    response: Route,
    handler: async ({ caller, params: { channel } }) =>
      answerOf(await withTenant(sql, caller.tenant.id, (tx) => currentRoute(caller.tenant.id, tx, channel))),
  });
}

function set(deps: AdminDeps): RouteModule {
  return defineRoute({
    method: 'PUT',
    path: '/v1/admin/routes/:channel',
    operation: 'setRoute',
    summary: "Set a channel's route",
    description:
      'Takes effect within a second, for messages that are sent from then on and for waiting messages that need another account. With `If-Match`, or `version` in the body, it is refused if the route was changed in the meantime. Setting the route that is already in force changes nothing.',
    tag,
    auth: { kind: 'bearer', role: 'admin' },
    params: ChannelParams,
    body: SetRoute,
    versioned: true,
    response: Route,
    errors: ['version_mismatch'],
    handler: async ({ caller, params: { channel }, body, request, warnings }) => {
      const tenantId = caller.tenant.id;
      if (body.channel !== undefined && body.channel !== channel)
        warnings.add({ field: 'channel', message: 'Ignored: the channel in the path counts' });
      const stored = await changeTenant(deps, scopeOf(caller, request), async ({ tx, audit }) => {
        const before = await currentRoute(tenantId, tx, channel);
        assertMatches(request.ifMatch, before.version);
        if (body.version !== undefined && body.version !== before.version)
          throw new AppError('version_mismatch');
        const route = toNewRoute(body);
        await assertSteps(tenantId, tx, route, before);
        if (before.version > 0 && isSameRoute(before, route)) return before;
        const after = await storeRoute(tenantId, tx, channel, route);
        const changes = auditChanges(fieldsOf(before), fieldsOf(after));
        await audit('route.updated', channel, { version: after.version }, { name: channel, changes });
        return after;
      });
      deps.notify('route', { tenantId });
      return answerOf(stored);
    },
  });
}

type Shown = Omit<StoredRoute, 'createdAt'> & { readonly createdAt: Date | null };

/** Returns the channel's current route; until one is set, its accounts by age. */
export async function currentRoute(tenantId: TenantId, tx: TransactionSql, channel: Channel): Promise<Shown> {
  const route = await findRoute(tenantId, tx, channel);
  if (route !== undefined) return route;
  return { ...routeByAge(channel, await listSendingAccounts(tenantId, tx)), channel, createdAt: null };
}

export function toNewRoute({
  strategy,
  steps,
  failoverOn,
  maxWaitMs,
  receiptTimeoutMs,
}: z.output<typeof SetRoute>): NewRoute {
  return {
    strategy,
    steps: steps.map(({ providerId: accountId, weight }) => ({ accountId, weight })),
    failoverOn,
    maxWaitMs,
    receiptTimeoutMs,
  };
}

export function isSameRoute(one: NewRoute, other: NewRoute): boolean {
  return JSON.stringify(fieldsOf(one)) === JSON.stringify(fieldsOf(other));
}

const fieldsOf = ({ strategy, steps, failoverOn, maxWaitMs = null, receiptTimeoutMs = null }: NewRoute) => ({
  strategy,
  steps: steps.map(({ accountId, weight }) => ({ providerId: accountId, weight })),
  failoverOn: [...failoverOn],
  maxWaitMs,
  receiptTimeoutMs,
});

/**
 * The current route may name accounts that were deleted since; a new one may keep them, so that it can be sent back as it was read.
 * @param at path of the steps in the body.
 * @throws AppError `validation_failed` unless the steps are the tenant's own accounts of the channel, each once.
 */
export async function assertSteps(
  tenantId: TenantId,
  tx: TransactionSql,
  { steps }: NewRoute,
  { channel, steps: current }: Shown,
  at = 'steps',
): Promise<void> {
  const ids = steps.map(({ accountId }) => accountId);
  const own = new Set<string>([
    ...(await listChannelAccounts(tenantId, tx, channel)),
    ...current.map(({ accountId }) => accountId),
  ]);
  const faults = ids.flatMap((id, i): ErrorDetail[] => {
    const field = `${at}.${i}.providerId`;
    if (!own.has(id))
      return [
        {
          field,
          rule: 'provider',
          message: `Must be a provider account of this tenant for channel '${channel}'`,
        },
      ];
    if (ids.indexOf(id) < i) return [{ field, rule: 'unique', message: 'Must not be in the route twice' }];
    return [];
  });
  if (faults.length > 0) throw validationFailed(...faults);
}

function answerOf(route: Shown): { body: z.output<typeof Route>; headers: Record<string, string> } {
  const { channel, version, createdAt } = route;
  return {
    body: { channel, ...fieldsOf(route), version, updatedAt: iso(createdAt) },
    headers: { etag: etagOf(version) },
  };
}
