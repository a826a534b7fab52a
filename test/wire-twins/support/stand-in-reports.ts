import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createHttpClient, type HttpClient } from '../../../services/core/platform/http/http-client.ts';
import type { ReceiptCall } from '../../../services/providers/receipt.ts';
import { startStandIn, type StandIn, type StandInOptions } from '../../../services/providers/stand-in.ts';
import { verdictOf, type Oracle } from './oracles.ts';
import { sendByUs, type Twin } from './twins.ts';

type Reporting = Pick<Twin, 'name' | 'provider' | 'account' | 'message'> &
  Pick<Oracle, 'takenByVendor'> & {
    readonly standIn: (options: StandInOptions) => Promise<StandIn>;
  };

/** Tests that the vendor's code and the adapter both accept the signature of the reports that a stand-in sends by itself. */
export function standInReports(cases: readonly Reporting[]): void {
  describe("a stand-in's reports", () => {
    let http: HttpClient;
    beforeAll(() => {
      http = createHttpClient();
    });
    afterAll(() => http[Symbol.asyncDispose]());

    test.each(cases)("$provider: on $name are genuine to the vendor's code", async (subject) => {
      await using receiver = await startStandIn(() => ({ status: 200 }));
      await using standIn = await subject.standIn({ isReporting: true });
      const receiptUrl = `${receiver.origin}/v1/receipts/account/t0ken_-`;
      await sendByUs({ ...subject, message: { ...subject.message, receiptUrl } }, standIn, http, Date.now());
      await expect.poll(() => receiver.received.length).toBe(2);
      for (const { method, path, headers, body, at } of receiver.received) {
        const url = receiver.origin + path;
        const call = { method, url, headers, body: Buffer.from(body), receivedAt: at } as ReceiptCall;
        expect(await subject.takenByVendor?.(call)).toBe(true);
        expect(await verdictOf(subject, call)).toEqual({ kind: 'genuine' });
      }
    });
  });
}
