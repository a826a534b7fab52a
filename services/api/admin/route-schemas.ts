import { z } from 'zod';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { CHANNELS } from '#core/domain/message/channel.ts';
import {
  FAILOVER_CLASSES,
  FAILOVER_DEFAULT,
  MAX_WAIT_MS_MAX,
  RECEIPT_WAIT_MS_MAX,
  RECEIPT_WAIT_MS_MIN,
  ROUTE_STEPS_MAX,
  ROUTE_STRATEGIES,
  STEP_WEIGHT_MAX,
} from '#core/domain/routing/route.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { uuidField } from '../http/input/fields.ts';

export const ChannelParams = z.object({ channel: z.enum(CHANNELS).describe('Channel of the route.') });

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

export const Route = z
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
          providerId: uuidField().describe(
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
