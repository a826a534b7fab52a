import { z } from 'zod';
import { ACCOUNT_STATUSES } from '#core/domain/account/account-state.ts';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { receiptToken, receiptUrl, type ReceiptKey } from '#core/domain/receipts/receipt-token.ts';
import { includesRole } from '#core/domain/tenant/role.ts';
import { VERIFICATION_RESULTS, type ProviderAccount } from '#core/store/accounts/provider-accounts.ts';
import { findProvider, receiptSetupOf, receiptsOf } from '#providers/registry.ts';
import type { MemberCaller } from '../../auth/auth.ts';
import { iso } from '../../http/iso.ts';
import { RECENT_EXAMPLE, recentFields } from './account-health-route.ts';
import { ReceiptSetup } from '../receipt-setup.ts';
import { warningsField } from '../../http/routes/request-warnings.ts';

const VERIFICATION_REASONS_TEXT =
  'Null when valid. Else `dns`, `connect_refused`, `unreachable`, `tls`, `timeout`, `connection_closed`, `egress_blocked`, `provider_unavailable`, `rate_limited`, or why the provider refused: `authentication_failed`, `forbidden`, `account_suspended`, `insufficient_credit` and others.';

export const RECEIPT_URL = `https://api.example.com/v1/receipts/3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10/1.${'0'.repeat(32)}`;

export const Provider = z
  .object({
    id: z.uuid(),
    provider: z.string().describe('Id of the provider in the catalog.'),
    channel: z.enum(CHANNELS),
    label: z.string(),
    status: z.enum([...ACCOUNT_STATUSES, 'deleted']).describe('Deleted accounts are not shown.'),
    statusReason: z
      .string()
      .nullable()
      .describe('Why the account is `unverified` or `invalid`, if known: a reason as in `lastVerification`.'),
    health: z
      .enum(['healthy', 'open', 'probing'])
      .describe('`open`: the provider fails, and calls are held back. `probing`: single calls try it again.'),
    configPublic: z.record(z.string(), z.unknown()).describe('`publicConfig` exactly as sent.'),
    rateLimitPerSecond: z.int().min(1).max(10_000).nullable(),
    secretVersion: z.int().min(1).max(INT32_MAX).describe('Increases with every new secret.'),
    lastVerification: z
      .object({
        at: z.iso.datetime(),
        result: z
          .enum(VERIFICATION_RESULTS)
          .describe('`unknown`: the provider could not be asked, so the state of the account is not known.'),
        reason: z.string().nullable().describe(VERIFICATION_REASONS_TEXT),
      })
      .nullable()
      .describe('The last check of the current settings and secret. Null until a check has ended.'),
    verifiedAt: z.iso
      .datetime()
      .nullable()
      .describe(
        'When the current settings and secret were last found to work: by a check, or by the accepted message that made the account `active`. Null for an `invalid` account.',
      ),
    receiptSetup: ReceiptSetup,
    lastReceiptAt: z.iso
      .datetime()
      .nullable()
      .describe('When the provider last reported the state of messages, accurate to a minute.'),
    lastRefusedReceipt: z
      .object({
        at: z.iso.datetime(),
        reason: z
          .string()
          .describe(
            '`signature_missing`, `signature_mismatch`, `timestamp_out_of_tolerance`, `unknown_sender`, `unreadable`, `too_many_waiting` and others.',
          ),
      })
      .nullable()
      .describe(
        'The last call to `receiptUrl` that was refused; `at` is accurate to a minute. By its signature it did not come from the provider, which may sign with another secret. Nothing of it was applied, but it is kept for a day, and so are up to 999 others: if it turns out to be genuine after `config` or `secret` were mended and the account was checked, it is applied then. `unreadable`: it came from the provider, but not in its format, or it could not be read for two days, as with settings that cannot be used. `too_many_waiting`: there are more than 10,000 reports on messages that were never sent from here, so that no more are kept for a day; the account may be shared with another system.',
      ),
    receiptUrl: z
      .string()
      .nullable()
      .optional()
      .describe(
        'URL to which the provider reports the state of messages. A secret, because it authenticates its caller: shown only to admins and owners. Null if the provider reports nothing to a URL.',
      ),
    recent: z
      .object(recentFields)
      .optional()
      .describe(
        'Results of its calls and receipts, as in `/health`. Present only if the account is read by its id.',
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
        receiptSetup: {
          mode: 'automatic',
          steps: ['Nothing to configure: each message carries its own StatusCallback address.'],
        },
        lastReceiptAt: null,
        lastRefusedReceipt: null,
        receiptUrl: RECEIPT_URL,
        recent: RECENT_EXAMPLE,
        createdAt: '2026-01-15T09:30:00.000Z',
        updatedAt: '2026-01-15T09:30:00.000Z',
      },
    ],
  });

/** The inputs of a receipt URL. */
export type ReceiptUrlParts = { readonly key: ReceiptKey; readonly publicBaseUrl: string };

type UrlFacts = Pick<ProviderAccount, 'id' | 'provider' | 'receiptVersion'>;

/** Returns null when the provider does not report to a URL. */
export function receiptUrlOf(
  { key, publicBaseUrl }: ReceiptUrlParts,
  { id, provider, receiptVersion }: UrlFacts,
): string | null {
  if (receiptsOf(findProvider(provider)) === undefined) return null;
  return receiptUrl(publicBaseUrl, id, receiptToken(key, id, receiptVersion));
}

/** Returns the account as any member sees it, without the fields for admins, so the result may also be stored. */
export function viewAccount(account: ProviderAccount): z.output<typeof Provider> {
  const { version: _version, receiptVersion: _receiptVersion, ...shown } = account;
  const { lastVerification, lastRefusedReceipt } = account;
  return {
    ...shown,
    lastVerification: lastVerification && { ...lastVerification, at: lastVerification.at.toISOString() },
    verifiedAt: iso(account.verifiedAt),
    receiptSetup: receiptSetupOf(findProvider(account.provider)),
    lastReceiptAt: iso(account.lastReceiptAt),
    lastRefusedReceipt: lastRefusedReceipt && {
      ...lastRefusedReceipt,
      at: lastRefusedReceipt.at.toISOString(),
    },
    createdAt: account.createdAt.toISOString(),
    updatedAt: account.updatedAt.toISOString(),
  };
}

/** Returns the account as the caller may see it. */
export function viewAccountFor(
  parts: ReceiptUrlParts,
  { role }: Pick<MemberCaller, 'role'>,
  account: ProviderAccount,
): z.output<typeof Provider> {
  const shown = viewAccount(account);
  // Tests break this (mutant: receipt-url-role): a caller who may not change an account does not see its receipt URL.
  return includesRole(role, 'admin') ? { ...shown, receiptUrl: receiptUrlOf(parts, account) } : shown;
}
