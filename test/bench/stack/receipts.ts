// Prepared provider calls that report on messages, signed and in the provider's own format.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chunks } from '#core/domain/chunks.ts';
import type { ProviderAccountId } from '#core/domain/storage/ids.ts';
import { receiptKey, receiptToken, receiptUrl } from '#core/domain/receipts/receipt-token.ts';
import { secret } from '#core/domain/storage/secret.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { storeReceiptCalls } from '#core/store/receipts/receipt-calls.ts';
import { statusReport } from '#providers/twilio/stand-in-reports.ts';
import { AUTH_TOKEN } from './seed.ts';
import type { SentMessage } from './sent-messages.ts';

/** Base URL that the provider is told to report to. */
export const RECEIPT_BASE_URL = 'http://127.0.0.1';

const URL_VERSION = 1;
const AT_ONCE = 500;

export type ReceiptReport = ReturnType<typeof statusReport> & { readonly accountId: string };

/** Returns a report of delivery for each message. @param pepper of the api's receipt URLs. */
export function deliveryReports(messages: readonly SentMessage[], pepper: string): ReceiptReport[] {
  const key = receiptKey(secret(pepper));
  const urls = new Map<string, string>();
  const urlOf = (accountId: string): string => {
    const known = urls.get(accountId);
    if (known !== undefined) return known;
    const url = receiptUrl(RECEIPT_BASE_URL, accountId, receiptToken(key, accountId, URL_VERSION));
    urls.set(accountId, url);
    return url;
  };
  return messages.map(({ id, sid, to, tenant: { accountId } }) => ({
    ...statusReport({
      url: `${urlOf(accountId)}?mid=${id}`,
      sid,
      state: 'delivered',
      authToken: AUTH_TOKEN,
      fields: { AccountSid: `AC${'0'.repeat(32)}`, From: '+15550009999', To: to },
    }),
    accountId,
  }));
}

/** Returns the HTTP request text of a report. */
export function receiptText({ url, headers, body }: Omit<ReceiptReport, 'accountId'>): string {
  const { pathname, search } = new URL(url);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return (
    `POST ${pathname}${search} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: TwilioProxy/1.1\r\naccept: */*\r\n` +
    `${lines.join('')}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  );
}

/** Writes a file for the load generator. @returns its path. */
export async function writeReceiptTexts(
  folder: string,
  name: string,
  reports: readonly ReceiptReport[],
): Promise<string> {
  const file = join(folder, `${name}.json`);
  await writeFile(file, JSON.stringify(reports.map(receiptText)));
  return file;
}

/** Stores reports as an api does while no worker runs. @throws when the database refuses one of them. */
export async function storeReports(sql: Sql, reports: readonly ReceiptReport[]): Promise<void> {
  for (const some of chunks(reports, AT_ONCE)) {
    const verdicts = await storeReceiptCalls(
      sql,
      some.map(({ url, headers, body, accountId }) => ({
        accountId: accountId as ProviderAccountId,
        method: 'POST',
        receiptVersion: URL_VERSION,
        query: new URL(url).search,
        headers: { 'x-twilio-signature': headers['x-twilio-signature'] ?? '' },
        body: Buffer.from(body),
      })),
    );
    const refused = verdicts.find((verdict) => verdict !== 'stored');
    if (refused !== undefined) throw new Error(`a receipt was refused: ${refused}`);
  }
}

// Counting ---------------------------------------------------------------------------------------------------------

/** Counts the calls that no worker has applied. */
export async function countCalls(sql: Sql): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select count(*) as n from receipt_calls`;
  return row?.n ?? 0;
}

/** Counts the messages that still wait for a receipt. */
export async function countAwaited(sql: Sql): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select count(*) as n from awaited_receipts`;
  return row?.n ?? 0;
}

/** Counts the applied receipts, and the messages that they belong to. */
export async function countApplied(sql: Sql): Promise<{ events: number; messages: number }> {
  const [row] = await sql<{ events: number; messages: number }[]>`
    select count(*) as events, count(distinct message_seq) as messages from event_log where source = 'receipt' and applied`;
  return { events: row?.events ?? 0, messages: row?.messages ?? 0 };
}
