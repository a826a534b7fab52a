import { z } from 'zod';
import { DAY_MS } from '#core/domain/text/duration.ts';
import { lookUp, pathPart, type LookupAnswer, type LookupDefinition, type LookupPace } from '../lookup.ts';
import type { ProviderContext } from '../provider.ts';
import { PROVIDER_STATUS_MAX } from '../receipt.ts';
import { secretStrings } from '../redact.ts';
import { batchesOf, headersOf, type Account } from './account.ts';
import { readError } from './errors.ts';
import { SINCH_ERRORS } from './outcomes.ts';
import { meaningOf } from './receipts.ts';

/** As long as Sinch keeps batches; without a start date it searches the last 24 hours. */
const LOOKED_THROUGH_MS = 14 * DAY_MS;

/** A lookup by our reference takes two requests. Sinch limits messages per service plan and documents no request limit. */
const PACE: LookupPace = { everyMs: 2_000, atOnce: 2 };

const Batches = z.looseObject({
  batches: z.array(
    z.looseObject({
      id: z.string().min(1),
      client_reference: z.string().optional().catch(undefined),
    }),
  ),
});
const Report = z.looseObject({
  statuses: z.array(
    z.looseObject({ status: z.string().min(1), code: z.number().optional().catch(undefined) }),
  ),
});

/**
 * https://developers.sinch.com/docs/sms/api-reference/sms/batches/listbatches and
 * https://developers.sinch.com/docs/sms/api-reference/sms/delivery-reports/getdeliveryreportbybatchid: a report exists
 * whether or not a callback was requested.
 */
export const sinchLookup: LookupDefinition<Account['config'], Account['secrets']> = {
  by: 'reference',
  pace: PACE,
  async ask({ messageId, providerMessageId }, account, context) {
    if (providerMessageId !== null) return reportOf(providerMessageId, account, context);
    const batch = await findBatch(messageId, account, context);
    if (batch.kind !== 'found' || batch.providerMessageId === undefined) return batch;
    const answer = await reportOf(batch.providerMessageId, account, context);
    // The batch exists even if nothing is reported about its message.
    return answer.kind === 'found' ? { ...batch, reports: answer.reports } : batch;
  },
};

function reportOf(batchId: string, account: Account, context: ProviderContext): Promise<LookupAnswer> {
  return get(`/${pathPart(batchId)}/delivery_report?type=summary`, readReport, account, context);
}

function findBatch(reference: string, account: Account, context: ProviderContext): Promise<LookupAnswer> {
  const query = new URLSearchParams({
    client_reference: reference,
    start_date: new Date(context.epochMs() - LOOKED_THROUGH_MS).toISOString(),
    page_size: '2',
  });
  return get(`?${query.toString()}`, (body) => readBatches(body, reference), account, context);
}

function get(
  below: string,
  read: (body: unknown) => LookupAnswer | undefined,
  account: Account,
  context: ProviderContext,
): Promise<LookupAnswer> {
  const request = {
    method: 'GET',
    url: batchesOf(account, context.origin) + below,
    headers: headersOf(account),
  } as const;
  const hidden = secretStrings(account.secrets);
  return lookUp({ request, codes: SINCH_ERRORS, readError, read, hidden }, context);
}

/** Keeps only the batches with this reference, in case Sinch ignores the filter. */
function readBatches(body: unknown, reference: string): LookupAnswer | undefined {
  const batches = Batches.safeParse(body).data?.batches;
  if (batches === undefined) return undefined;
  const batch = batches.find((one) => one.client_reference === reference);
  return batch === undefined
    ? { kind: 'not_found' }
    : { kind: 'found', reports: [], providerMessageId: batch.id };
}

/** Each batch has one recipient. */
function readReport(body: unknown): LookupAnswer | undefined {
  const statuses = Report.safeParse(body).data?.statuses;
  if (statuses === undefined) return undefined;
  const reports = statuses.map(({ status, code }) => ({
    providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
    ...meaningOf(status, code),
  }));
  return { kind: 'found', reports };
}
