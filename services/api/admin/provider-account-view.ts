import { z } from 'zod';
import { CHANNELS } from '#core/domain/channel.ts';
import {
  ACCOUNT_STATUSES,
  VERIFICATION_RESULTS,
  type ProviderAccount,
} from '#core/store/provider-accounts.ts';
import { isoOrNull } from './admin-change.ts';
import { warningsField } from '../http/request-warnings.ts';

const VERIFICATION_REASONS_TEXT =
  'Null when valid. Else `dns`, `connect_refused`, `unreachable`, `tls`, `timeout`, `connection_closed`, `egress_blocked`, `provider_unavailable`, `rate_limited`, or what the provider refused: `authentication_failed`, `forbidden`, `account_suspended`, `insufficient_credit` and others.';

export const Provider = z
  .object({
    id: z.uuid(),
    provider: z.string().describe('The id in the catalog.'),
    channel: z.enum(CHANNELS),
    label: z.string(),
    status: z.enum([...ACCOUNT_STATUSES, 'deleted']).describe('Deleted accounts are not shown.'),
    statusReason: z
      .string()
      .nullable()
      .describe(
        'Why the account is `unverified` or `invalid`, where that is known: a reason as in `lastVerification`.',
      ),
    health: z
      .enum(['healthy', 'open', 'probing'])
      .describe('`open`: the provider fails, and calls are held back. `probing`: single calls try it again.'),
    configPublic: z.record(z.string(), z.unknown()).describe('`publicConfig` exactly as sent.'),
    rateLimitPerSecond: z.int().min(1).max(10_000).nullable(),
    secretVersion: z.int().min(1).max(2_147_483_647).describe('Rises with every new secret.'),
    lastVerification: z
      .object({
        at: z.iso.datetime(),
        result: z
          .enum(VERIFICATION_RESULTS)
          .describe('`unknown`: the provider could not be asked, which says nothing about the account.'),
        reason: z.string().nullable().describe(VERIFICATION_REASONS_TEXT),
      })
      .nullable()
      .describe('The last check of the present settings and secret. Null until one has ended.'),
    verifiedAt: z.iso
      .datetime()
      .nullable()
      .describe(
        'When the present settings and secret were last seen to work. Null for an `invalid` account.',
      ),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
    ...warningsField,
  })
  .meta({
    id: 'Provider',
    description: "A tenant's account with a provider, without its secrets.",
    examples: [
      {
        id: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10',
        provider: 'twilio',
        channel: 'sms',
        label: 'Twilio, main account',
        status: 'unverified',
        statusReason: null,
        health: 'healthy',
        configPublic: { accountSid: `AC${'0'.repeat(32)}`, from: '+15550000100' },
        rateLimitPerSecond: null,
        secretVersion: 1,
        lastVerification: null,
        verifiedAt: null,
        createdAt: '2026-01-15T09:30:00.000Z',
        updatedAt: '2026-01-15T09:30:00.000Z',
      },
    ],
  });

export function viewAccount(account: ProviderAccount): z.output<typeof Provider> {
  const { version: _, lastVerification, ...shown } = account;
  return {
    ...shown,
    lastVerification: lastVerification && { ...lastVerification, at: lastVerification.at.toISOString() },
    verifiedAt: isoOrNull(account.verifiedAt),
    createdAt: account.createdAt.toISOString(),
    updatedAt: account.updatedAt.toISOString(),
  };
}
