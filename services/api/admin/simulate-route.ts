import { z } from 'zod';
import type { Channel } from '#core/domain/message/channel.ts';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { ROUTE_VERDICTS } from '#core/domain/routing/explain-route.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Route } from '#core/domain/routing/route.ts';
import {
  createSimulator,
  SIMULATION_SAMPLES_MAX,
  type Simulation,
  type Simulator,
} from '#core/domain/routing/simulate-route.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { listSendingAccounts } from '#core/store/accounts/sending-accounts.ts';
import type { MessagePosition } from '#core/store/messages/messages.ts';
import { scanPastMessages } from '#core/store/messages/past-messages.ts';
import { usageAccounts } from '#core/store/tenants/usage.ts';
import { iso } from '../http/iso.ts';
import type { AdminDeps } from './admin-deps.ts';
import { assertSteps, currentRoute, isSameRoute, toNewRoute } from './route-change.ts';
import { ChannelParams, SetRoute } from './route-schemas.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';

const MESSAGES_MAX = 10_000;
const MESSAGES_DEFAULT = 1_000;
/** How many messages of all channels are scanned for those of one channel, and for how long. */
const ROWS_MAX = 50_000;
const SCAN_MS_MAX = 2_000;
/** Messages read and replayed per chunk; between two chunks the event loop serves other requests. */
const ROWS_AT_ONCE = 500;

const count = z.int().min(0).max(MESSAGES_MAX);
const providerFields = {
  providerId: z.uuid(),
  label: z.string().nullable().describe('Label of the provider account.'),
};
const reason = z
  .string()
  .describe(
    'As in the `route` of a message: `disabled`, why the account could not be called at that time, or the class of the failure with which it answered.',
  );

const EXAMPLE_IDS = {
  first: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10',
  second: '8c1d7e5b-6a0f-4b6a-8f0c-1d2e3f4a5b6c',
};

const SimulateRoute = z
  .object({
    draft: SetRoute.describe(
      'The route to simulate, as it would be set. Its `version`, `channel` and `updatedAt` are ignored.',
    ),
    last: z
      .int()
      .min(1)
      .max(MESSAGES_MAX)
      .default(MESSAGES_DEFAULT)
      .describe('Number of messages to replay, the newest ones.'),
  })
  .meta({
    id: 'SimulateRoute',
    description: 'A route to simulate on past messages.',
    examples: [
      {
        draft: {
          strategy: 'priority',
          steps: [{ providerId: EXAMPLE_IDS.second }, { providerId: EXAMPLE_IDS.first }],
        },
        last: 5_000,
      },
    ],
  });

const RouteSimulation = z
  .object({
    channel: z.enum(CHANNELS),
    considered: count.describe(
      'Number of replayed messages: fewer than requested if there are no more, or if finding them among those of other channels takes too long.',
    ),
    since: z.iso
      .datetime()
      .nullable()
      .describe('When the oldest replayed message was accepted. Null without messages.'),
    moved: count.describe('Replayed messages that would have ended at another account.'),
    unroutable: count.describe('Replayed messages for which no account of the draft can be used.'),
    byProvider: z
      .array(
        z.object({
          ...providerFields,
          before: count.describe('Messages that ended at this account.'),
          after: count.describe('Messages that would have ended at this account.'),
          deliveryRate: z
            .number()
            .min(0)
            .max(1)
            .nullable()
            .describe(
              'Of the messages that ended at this account: share of messages with a final receipt that were delivered; null if none has one.',
            ),
        }),
      )
      .describe('Every account of the draft, and every account that had any of the messages.'),
    moves: z
      .array(z.object({ from: z.uuid(), to: z.uuid(), messages: count }))
      .describe('Number of messages that would have moved from one account to another; largest first.'),
    excluded: z
      .array(z.object({ ...providerFields, reason, messages: count }))
      .describe('Accounts that would have been skipped or left, and why; largest number of messages first.'),
    samples: z
      .array(
        z.object({
          messageId: z.uuid(),
          before: z.uuid().describe('The account at which the message ended.'),
          after: z
            .uuid()
            .nullable()
            .describe('The account at which the message would have ended; null if none.'),
          route: z
            .array(z.object({ ...providerFields, verdict: z.enum(ROUTE_VERDICTS), reason: z.string() }))
            .describe('Every account that would have been considered, in order.'),
        }),
      )
      .max(SIMULATION_SAMPLES_MAX)
      .describe('The newest messages that would have moved, or found no account.'),
    ...warningsField,
  })
  .meta({
    id: 'RouteSimulation',
    description: 'Result of simulating a route on past messages.',
    examples: [
      {
        channel: 'sms',
        considered: 5_000,
        since: '2026-01-14T09:30:00.000Z',
        moved: 4_871,
        unroutable: 0,
        byProvider: [
          { providerId: EXAMPLE_IDS.second, label: 'Vonage', before: 88, after: 4_959, deliveryRate: 0.9762 },
          { providerId: EXAMPLE_IDS.first, label: 'Twilio', before: 4_912, after: 41, deliveryRate: 0.9841 },
        ],
        moves: [{ from: EXAMPLE_IDS.first, to: EXAMPLE_IDS.second, messages: 4_871 }],
        excluded: [
          { providerId: EXAMPLE_IDS.second, label: 'Vonage', reason: 'provider_unavailable', messages: 41 },
        ],
        samples: [
          {
            messageId: '0d9f1b62-4c1e-4a57-b0a3-5a1f6c7d8e90',
            before: EXAMPLE_IDS.first,
            after: EXAMPLE_IDS.second,
            route: [
              { providerId: EXAMPLE_IDS.second, label: 'Vonage', verdict: 'chosen', reason: 'in_route' },
            ],
          },
        ],
      },
    ],
  });

const DESCRIPTION = `Replays the newest messages of the channel with a draft of its route, and changes nothing. Each message gets an account and fails over as messages of today do, with the accounts that can be used now. An account answers each message as it did then; an account that was not called then is assumed to accept. A message that waited too long for an account moves on from it if the draft has a \`maxWaitMs\`, of any length; other waits are not recorded. A message on which its account did not report in time moves on if the draft has a \`receiptTimeoutMs\`; for other messages, receipts are assumed to arrive in time.

Test messages, messages whose sender named the account, and messages for which no account was called are excluded. At most 50,000 messages of all channels are read, for at most 2 seconds.`;

export function simulateRouteRoute({ read }: Pick<AdminDeps, 'read'>): RouteModule {
  return defineRoute({
    method: 'POST',
    path: '/v1/admin/routes/:channel/simulate',
    operation: 'simulateRoute',
    summary: 'Simulate a route on past messages',
    description: DESCRIPTION,
    tag: 'Providers',
    auth: { kind: 'bearer', role: 'viewer', changesNothing: true },
    params: ChannelParams,
    body: SimulateRoute,
    response: RouteSimulation,
    handler: async ({ caller, params: { channel }, body: { draft, last }, gone }) => {
      const tenantId = caller.tenant.id;
      const signal = gone();
      return {
        body: await read(tenantId, signal, async (tx) => {
          const route = await draftOf(tenantId, tx, channel, draft);
          const simulator = createSimulator(route, await listSendingAccounts(tenantId, tx));
          const since = await replay(tenantId, tx, { channel, last, simulator, gone: signal });
          const result = simulator.result();
          const labels = await labelsOf(tenantId, tx, result);
          return { channel, since: iso(since), ...shown(result, labels) };
        }),
      };
    },
  });
}

/**
 * Returns the route as it would be if it were set. Its version affects how messages are distributed, so it is the version
 * that the route would get.
 * @throws AppError `validation_failed`.
 */
async function draftOf(
  tenantId: TenantId,
  tx: TransactionSql,
  channel: Channel,
  draft: z.output<typeof SetRoute>,
): Promise<Route> {
  const route = toNewRoute(draft);
  const current = await currentRoute(tenantId, tx, channel);
  await assertSteps(tenantId, tx, route, current, 'draft.steps');
  const { version } = current;
  const isInForce = version > 0 && isSameRoute(current, route);
  return { ...route, channel, version: isInForce ? version : version + 1 };
}

type Replay = {
  readonly channel: Channel;
  readonly last: number;
  readonly simulator: Simulator;
  readonly gone: AbortSignal;
};

/** @returns when the oldest replayed message was accepted; null when there was none. */
async function replay(
  tenantId: TenantId,
  tx: TransactionSql,
  { channel, last, simulator, gone }: Replay,
): Promise<Date | null> {
  const until = performance.now() + SCAN_MS_MAX;
  let [before, since]: [MessagePosition | undefined, Date | null] = [undefined, null];
  let missing = last;
  for (let rows = 0; rows < ROWS_MAX && missing > 0 && performance.now() < until; rows += ROWS_AT_ONCE) {
    gone.throwIfAborted();
    const range = { before, rows: ROWS_AT_ONCE, most: missing };
    const { found, scanned, end } = await scanPastMessages(tenantId, tx, channel, range);
    found.forEach(simulator.add);
    missing -= found.length;
    [before, since] = [end ?? before, found.at(-1)?.enqueuedAt ?? since];
    if (scanned < ROWS_AT_ONCE) break;
  }
  return since;
}

/** Includes deleted accounts. */
async function labelsOf(
  tenantId: TenantId,
  tx: TransactionSql,
  { byAccount, excluded, samples }: Simulation,
): Promise<ReadonlyMap<string, string>> {
  const steps = samples.flatMap((sample) => sample.steps);
  const ids = new Set([...byAccount, ...excluded, ...steps].map(({ accountId }) => accountId));
  const accounts = await usageAccounts(tenantId, tx, [...ids]);
  return new Map(accounts.map(({ id, label }) => [id, label]));
}

function shown(simulation: Simulation, labels: ReadonlyMap<string, string>) {
  const { byAccount, excluded, samples, ...rest } = simulation;
  const named = <T extends { readonly accountId: string }>({ accountId, ...facts }: T) => ({
    providerId: accountId,
    label: labels.get(accountId) ?? null,
    ...facts,
  });
  return {
    ...rest,
    moves: [...rest.moves],
    byProvider: byAccount.map(named),
    excluded: excluded.map(named),
    samples: samples.map(({ id, before, after, steps }) => ({
      messageId: id,
      before,
      after,
      route: steps.map(named),
    })),
  };
}
