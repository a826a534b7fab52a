import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { ENDPOINT_STATUSES } from '#core/domain/webhooks/endpoint-state.ts';
import { SEQ_MAX } from '#core/domain/webhooks/event-schemas.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { includesRole, type Role } from '#core/domain/tenant/role.ts';
import { shownHeader } from '#core/domain/webhooks/webhook-headers.ts';
import { shownUrl } from '#core/domain/webhooks/webhook-url.ts';
import { PENDING_MAX, SIGNATURES, type EndpointRecord } from '#core/store/webhooks/webhook-endpoints.ts';
import { iso } from '../http/iso.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { RATE_MAX } from './endpoint-schema.ts';

const ENDPOINT_EXAMPLE = {
  id: '7b1e0a64-2f83-4c1d-9a57-6e0d4f3c2b18',
  url: 'https://shop.example.com/hooks/despatch',
  description: null,
  eventTypes: ['message.*'],
  finalOnly: true,
  channels: [],
  tags: [],
  headers: { Authorization: '…4f2a' },
  ordered: false,
  maskRecipients: false,
  rateLimitPerSecond: null,
  signatures: ['v1'],
  hasClientCertificate: false,
  status: 'active',
  statusReason: null,
  failures: 0,
  failingSince: null,
  secretVersion: 1,
  previousSecretUntil: null,
  lastSeq: 1_042,
  pending: 0,
  createdAt: '2026-01-15T09:30:00.000Z',
  updatedAt: '2026-01-15T09:30:00.000Z',
};
const SECRET_EXAMPLE = `whsec_${'A'.repeat(43)}=`;

const shared = {
  secretVersion: z.int().min(1).max(INT32_MAX).describe('Increases with every new secret.'),
  previousSecretUntil: z.iso
    .datetime()
    .nullable()
    .describe('Until when the previous secret also signs. Null: it does not.'),
};

export const Endpoint = z
  .object({
    id: z.uuid(),
    url: z
      .string()
      .describe('For roles below `admin` without the values of its query, which may be secrets: `?token=…`.'),
    description: z.string().nullable(),
    eventTypes: z.array(z.string()),
    finalOnly: z.boolean(),
    channels: z.array(z.enum(CHANNELS)),
    tags: z.array(z.string()),
    headers: z
      .record(z.string(), z.string())
      .describe(
        'For headers that contain a secret only the last four characters, or none if the value is short.',
      ),
    ordered: z.boolean(),
    maskRecipients: z.boolean(),
    rateLimitPerSecond: z.int().min(1).max(RATE_MAX).nullable(),
    signatures: z.array(z.enum(SIGNATURES)),
    hasClientCertificate: z.boolean(),
    status: z
      .enum(ENDPOINT_STATUSES)
      .describe(
        '`failing`: the last calls failed, and single calls try the endpoint again. `paused`: by a person. `disabled`: not called until it is resumed. In each of these states its events wait.',
      ),
    statusReason: z
      .string()
      .nullable()
      .describe('For `disabled`: `gone` if it answered 410; `failing` if it failed for five days.'),
    failures: z.int().min(0).max(INT32_MAX).describe('Number of failed calls since the last successful one.'),
    failingSince: z.iso
      .datetime()
      .nullable()
      .describe('Time of the first of these failures; once `failing`, of the one that made it so.'),
    ...shared,
    lastSeq: z
      .int()
      .min(0)
      .max(SEQ_MAX)
      .describe('The highest number in its feed, `data.seq` of its newest event. 0: no event yet.'),
    pending: z
      .int()
      .min(0)
      .max(PENDING_MAX)
      .describe(`Number of pending deliveries; ${PENDING_MAX} means that many or more.`),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
    ...warningsField,
  })
  .meta({
    id: 'WebhookEndpoint',
    description: 'A webhook endpoint of a tenant, without its secrets.',
    examples: [ENDPOINT_EXAMPLE],
  });
export type Endpoint = z.output<typeof Endpoint>;

export const EndpointWithSecret = Endpoint.extend({
  secret: z.string().describe('Signs each call, by Standard Webhooks. Shown only once.'),
}).meta({
  id: 'WebhookEndpointWithSecret',
  description: 'An endpoint with its secret.',
  examples: [{ ...ENDPOINT_EXAMPLE, secret: SECRET_EXAMPLE }],
});
export type EndpointWithSecret = z.output<typeof EndpointWithSecret>;

export const RotatedSecret = z
  .object({
    id: z.uuid().describe('Id of the endpoint.'),
    secret: z.string().describe('The new secret. Shown only once.'),
    ...shared,
    ...warningsField,
  })
  .meta({
    id: 'RotatedWebhookSecret',
    description: 'The new secret that signs the calls of an endpoint.',
    examples: [
      {
        id: ENDPOINT_EXAMPLE.id,
        secret: SECRET_EXAMPLE,
        secretVersion: 2,
        previousSecretUntil: '2026-01-16T09:30:00.000Z',
      },
    ],
  });
export type RotatedSecret = z.output<typeof RotatedSecret>;

/** @param role the role of the viewer. */
export function viewEndpoint(endpoint: EndpointRecord, role: Role): Endpoint {
  return {
    id: endpoint.id,
    url: includesRole(role, 'admin') ? endpoint.url : shownUrl(endpoint.url),
    description: endpoint.description,
    eventTypes: [...endpoint.eventTypes],
    finalOnly: endpoint.finalOnly,
    channels: [...endpoint.channels],
    tags: [...endpoint.tags],
    headers: shownHeaders(endpoint.headers),
    ordered: endpoint.ordered,
    maskRecipients: endpoint.maskRecipients,
    rateLimitPerSecond: endpoint.rateLimitPerSecond,
    signatures: [...endpoint.signatures],
    hasClientCertificate: endpoint.hasClientCertificate,
    status: endpoint.status,
    statusReason: endpoint.statusReason,
    failures: endpoint.failures,
    failingSince: iso(endpoint.failingSince),
    secretVersion: endpoint.secretVersion,
    previousSecretUntil: iso(endpoint.previousSecretUntil),
    lastSeq: endpoint.lastSeq,
    pending: endpoint.pending,
    createdAt: endpoint.createdAt.toISOString(),
    updatedAt: endpoint.updatedAt.toISOString(),
  };
}

function shownHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, shownHeader(name, value)]));
}
