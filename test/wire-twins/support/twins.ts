import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { OutboundMessage } from '../../../services/core/domain/message/content.ts';
import type { Outcome } from '../../../services/core/domain/sending/outcome.ts';
import { createHttpClient, type HttpClient } from '../../../services/core/platform/http/http-client.ts';
import { createProviderContexts } from '../../../services/providers/context.ts';
import type { AnyProvider, ProviderContext } from '../../../services/providers/provider.ts';
import { findProvider, parseAccount } from '../../../services/providers/registry.ts';
import type { Received, StandIn } from '../../../services/providers/stand-in.ts';
import type { SentAccount } from '../../suites/provider-conformance.ts';
import { RECEIPT_URL } from '../../suites/receipt-conformance.ts';
import { leadVendorCalls } from './vendor-calls.ts';
import { wireFacts, type WireFacts } from './wire-facts.ts';

/** A place where the two requests differ, the value of each, and the reason why the difference is right. */
export type Difference = {
  readonly at: string;
  /** Absent: the SDK sends nothing there. */
  readonly sdk?: unknown;
  /** Absent: the adapter sends nothing there. */
  readonly ours?: unknown;
  readonly why: string;
};

export type Twin = {
  readonly name: string;
  /** The provider's id in the catalog. */
  readonly provider: string;
  readonly account: SentAccount;
  readonly message: OutboundMessage;
  /** Receives both requests. Its answers are the vendor's, so the SDK must be able to parse them. */
  readonly standIn: () => Promise<StandIn>;
  /** Sends the message with the vendor's SDK, and returns the id that the SDK read from the answer. */
  readonly sendBySdk: () => Promise<unknown>;
  /** Headers to compare besides authorization and the content types. */
  readonly headers?: readonly string[];
  /** Path of the request that carries the message. Default: the only request. */
  readonly path?: RegExp;
  readonly differences: readonly Difference[];
};

/** The adapters' clock. No SDK signs the same time, so times in signatures always differ. */
export const NOW = Date.UTC(2026, 0, 15, 12);
export const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';

/** A number in India, and the settings of an account that sends there. */
export const INDIA = {
  to: '+919876543210',
  digits: '919876543210',
  settings: { dltEntityId: '1101568700000000001', dltTemplateId: '1107160000000000002' },
} as const;

/** The fields that every twin's message has. */
export const ENVELOPE = {
  id: REFERENCE,
  expiresAt: NOW + 3_600_000,
  receiptUrl: RECEIPT_URL,
  attempt: 1,
} as const;

/** Tests that a vendor's SDK and the adapter send the same request for the same message, except for the listed differences. */
export function twins(cases: readonly Twin[]): void {
  describe('the requests of the SDK and of our adapter are equal', () => {
    let http: HttpClient;
    beforeAll(() => {
      http = createHttpClient();
    });
    afterAll(() => http[Symbol.asyncDispose]());

    test.each(cases)('$provider: $name', async (twin) => {
      // Two stand-ins: a vendor that knows its idempotency keys would treat the second message as a repetition of the first.
      await using sdks = await twin.standIn();
      await using ours = await twin.standIn();
      const bySdk = await sendBySdk(twin, sdks);
      const { request, origin } = await sendByUs(twin, ours, http);
      const byUs = wireFacts(origin, request, twin.headers ?? []);
      expect(differencesOf(bySdk, byUs)).toEqual(twin.differences.map(withoutReason).toSorted(byPlace));
    });
  });
}

async function sendBySdk(twin: Twin, standIn: StandIn): Promise<WireFacts> {
  using calls = leadVendorCalls(standIn.origin);
  const before = standIn.received.length;
  expect(await twin.sendBySdk()).toMatch(/\w{6}/);
  const { request, position } = sentOf(twin, standIn.received.slice(before));
  return wireFacts(calls.origins[position], request, twin.headers ?? []);
}

/** Sends the message by the adapter, and returns the request that carried it and the vendor's origin that it was addressed to. */
export async function sendByUs(
  twin: Pick<Twin, 'provider' | 'account' | 'message' | 'path'>,
  standIn: StandIn,
  http: HttpClient,
  now = NOW,
): Promise<{ readonly request: Received; readonly origin: string | undefined }> {
  const provider = findProvider(twin.provider);
  if (provider === undefined) throw new Error(`The catalog lacks ${twin.provider}`);
  const before = standIn.received.length;
  const origins: string[] = [];
  const context = createProviderContexts({
    http,
    resolve: async () => ({ kind: 'refused', code: 'egress_blocked' }),
    baseUrls: { [provider.id]: standIn.origin },
    epochMs: () => now,
  })({ provider: provider.id, accountId: 'account', version: 1, until: AbortSignal.timeout(20_000) });
  const origin = (vendorOrigin: string): string => {
    origins.push(vendorOrigin);
    return context.origin(vendorOrigin);
  };
  expect(await send(provider, twin, { ...context, signal: context.signal, origin })).toMatchObject({
    kind: 'accepted',
    providerMessageId: expect.stringMatching(/\w{6}/),
  });
  const { request, position } = sentOf(twin, standIn.received.slice(before));
  return { request, origin: origins[position] };
}

function send(
  provider: AnyProvider,
  { account, message }: Pick<Twin, 'account' | 'message'>,
  context: ProviderContext,
): Promise<Outcome> {
  const parsed = parseAccount(provider, account.publicConfig, account.secretConfig);
  if (!parsed.ok) throw new Error(`The account is not valid: ${JSON.stringify(parsed.details)}`);
  const { config, secrets } = parsed;
  return provider.send(message as never, { config, secrets } as never, context);
}

function sentOf({ path = /^/ }: Pick<Twin, 'path'>, received: readonly Received[]) {
  const found = received.flatMap((request, position) =>
    path.test(request.path) ? [{ request, position }] : [],
  );
  const [only, ...others] = found;
  if (only === undefined || others.length > 0)
    throw new Error(`One request was expected, not ${JSON.stringify(received.map((one) => one.path))}`);
  return only;
}

function differencesOf(sdk: WireFacts, ours: WireFacts): Omit<Difference, 'why'>[] {
  return [...new Set([...sdk.keys(), ...ours.keys()])]
    .filter((at) => sdk.has(at) !== ours.has(at) || !isDeepStrictEqual(sdk.get(at), ours.get(at)))
    .map((at) => ({
      at,
      ...(sdk.has(at) ? { sdk: sdk.get(at) } : {}),
      ...(ours.has(at) ? { ours: ours.get(at) } : {}),
    }))
    .toSorted(byPlace);
}

function withoutReason(difference: Difference): Omit<Difference, 'why'> {
  const { why: _, ...rest } = difference;
  return rest;
}

function byPlace(one: { readonly at: string }, other: { readonly at: string }): number {
  return one.at < other.at ? -1 : 1;
}
