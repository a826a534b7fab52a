import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import { notFound, orNotFound, overloaded, type AppError } from '#core/domain/fault/app-error.ts';
import { isUuid } from '#core/domain/storage/ids.ts';
import { receiptUrl, type ReceiptKey } from '#core/domain/receipts/receipt-token.ts';
import type { ReceiptAccount } from '#core/store/receipts/receipt-calls.ts';
import type { ReceiptAnswer, ReceiptAnswerType } from '#providers/receipt.ts';
import { findProvider, receiptsOf, type AnyReceipts } from '#providers/registry.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { defineRawRoute, type RawRequest } from '../http/routes/raw-route.ts';
import type { FullAccounts } from './full-accounts.ts';
import type { ReceiptAccounts } from './receipt-accounts.ts';
import type { ReceiptBatcher } from './receipt-batcher.ts';
import { createReadToken } from './receipt-tokens.ts';

export type ReceiptRoutesDeps = {
  /** Key of the tokens in receipt URLs. */
  readonly key: ReceiptKey;
  readonly publicBaseUrl: string;
  readonly accounts: Pick<ReceiptAccounts, 'find'>;
  readonly batcher: Pick<ReceiptBatcher, 'store'>;
  readonly full: FullAccounts;
};

/** The default when a provider sets no limit. */
const BODY_BYTES_MAX = 256 * 1024;
/** Enough time for the worker to process some of the backlog. */
const RETRY_AFTER_S = 10;

const ReceiptParams = z.object({
  providerId: z.string().describe('The id of the provider account.'),
  token: z.string().describe('Authenticates the caller. Part of the `receiptUrl` of the account.'),
});

const shared = {
  path: '/v1/receipts/:providerId/:token',
  tag: 'Receipts',
  params: ReceiptParams,
  answers: { 'text/xml': '<Response/>', 'text/plain': 'OK' } satisfies Record<ReceiptAnswerType, string>,
} as const;

type Admitted = {
  /** The owner that the call's memory is charged to. */
  readonly owner: string;
  readonly providerId: string;
  readonly bytesMax: number;
  readonly account: ReceiptAccount;
  readonly receipts: AnyReceipts;
  readonly version: number;
  readonly token: string;
};

/**
 * The routes that vendors call. Each call is stored unchanged before it is answered; a worker verifies and parses it later.
 */
export function receiptRoutes(deps: ReceiptRoutesDeps): RouteModule {
  const { key, publicBaseUrl, accounts, batcher, full } = deps;
  const readToken = createReadToken(key);

  /** Answers the same 404 for any fault in a URL, and makes no query for a wrong token. */
  async function admit(params: z.input<typeof ReceiptParams>): Promise<Admitted> {
    const { token } = params;
    const id = params.providerId.toLowerCase();
    const version = readToken(id, token);
    if (version === undefined || !isUuid(id)) throw notFound();
    const account = await accounts.find(id);
    if (account === undefined || !holds(account, version)) throw notFound();
    const receipts = orNotFound(receiptsOf(findProvider(account.provider)));
    if (full.has(id)) throw fullAccount();
    const { bytesMax = BODY_BYTES_MAX } = receipts;
    return { owner: account.tenantId, providerId: id, bytesMax, account, receipts, version, token };
  }

  async function take(
    { account, receipts, version, token }: Admitted,
    { method, query, headers, body, traceparent }: RawRequest,
  ): Promise<ReceiptAnswer> {
    if (receipts.handshake !== undefined) {
      const url = receiptUrl(publicBaseUrl, account.id, token) + query;
      const handshake = receipts.handshake({ method, url }, token);
      if (handshake !== undefined) return handshake;
    }
    const verdict = await batcher.store({
      tenantId: account.tenantId,
      accountId: account.id,
      method,
      receiptVersion: version,
      query,
      headers: pick(headers, receipts.headers),
      body,
      traceparent,
    });
    if (verdict === 'gone') throw notFound();
    if (verdict === 'full') {
      full.note(account.id);
      throw fullAccount();
    }
    return receipts.answer ?? { status: 204 };
  }

  const post = defineRawRoute({
    ...shared,
    method: 'POST',
    operation: 'takeReceipt',
    summary: "Receive a provider's report",
    description:
      'For providers only, at the `receiptUrl` of the account. The body may be of any type and has at most 256 KiB, or up to 4 MiB if the provider reports on many messages at once. The call is stored unchanged before it is answered; it is verified later. Some providers get 200 and the body that they expect, which may be empty.',
    errors: ['not_found'],
    admit,
    handler: take,
  });
  const get = defineRawRoute({
    ...shared,
    method: 'GET',
    operation: 'takeReceiptOfQuery',
    summary: "Receive a provider's report in the query",
    description:
      'For providers only, at the `receiptUrl` of the account: reports in the query, and calls that only verify the URL. Otherwise as with POST.',
    errors: ['not_found'],
    admit,
    handler: take,
  });
  return (app) => {
    post(app);
    get(app);
  };
}

/** Returns whether a token version is the current one, or the previous one within its grace period. */
function holds({ receiptVersion, receiptGraceUntil }: ReceiptAccount, version: number): boolean {
  if (version === receiptVersion) return true;
  const isInGrace = receiptGraceUntil !== null && receiptGraceUntil.getTime() > Date.now();
  return isInGrace && version === receiptVersion - 1;
}

/** Too many calls of the account are waiting. A 503, because not every vendor repeats a call after a 4xx. */
function fullAccount(): AppError {
  return overloaded(RETRY_AFTER_S, 'Too many reports on this account are waiting to be processed');
}

function pick(headers: IncomingHttpHeaders, names: readonly string[]): Record<string, string> {
  const picked: Record<string, string> = {};
  for (const name of names) {
    const value = headers[name];
    if (value !== undefined) picked[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return picked;
}
