import { behaviourOfNumber, plannedReports, type Behaviour, type PlannedReport } from './behaviour.ts';
import type { ReceiptCall } from './receipt.ts';
import type { OutgoingReport, React, Received, Reply, SigningAccount } from './stand-in.ts';

/** A message that the vendor accepted; for a message in several parts, one part. */
export type TakenMessage = {
  /** The public id that the message was sent with. */
  readonly reference: string;
  /** The recipient as sent. */
  readonly to: string;
  readonly behaviour: Behaviour;
  /** The vendor's id. */
  readonly providerMessageId: string;
  /** The callback URL that the message itself names. */
  readonly callback?: string;
  /** Other fields that the vendor repeats, by the vendor's names. */
  readonly fields?: Readonly<Record<string, string>>;
  /** The signing account, when it is not otherwise known to the vendor. */
  readonly account?: SigningAccount;
};

export type ReportedState = PlannedReport['state'];
export type UnsignedReport = Pick<ReceiptCall, 'method' | 'url' | 'headers'> & { readonly body: string };

/** How a vendor reports. */
export type Reporter = {
  /**
   * Returns the messages accepted by a request with this reply; empty when the request was refused or is about something
   * else.
   */
  readonly taken: (request: Received, reply: Reply) => readonly TakenMessage[];
  /** Returns the answer to a message whose recipient is to be refused. */
  readonly refused: (request: Received) => Reply;
  /** Absent when the vendor sends no reports. @param url the callback URL that the vendor has. */
  readonly write?: (message: TakenMessage, state: ReportedState, url: string) => UnsignedReport | undefined;
  /** Absent when the vendor does not sign. Returns undefined when the vendor does not call an account with this setup. */
  readonly sign?: (call: ReceiptCall, account: SigningAccount, at: number) => ReceiptCall | undefined;
};

const NO_ACCOUNT: SigningAccount = { publicConfig: {}, secretConfig: {} };

/** Makes a stand-in report as the vendor does. The recipient selects a message's fate. */
export function reportsBy({ taken, refused, write, sign = (call) => call }: Reporter): React {
  return (request, usual, accountOf) => {
    const messages = taken(request, usual);
    if (messages.some(({ behaviour }) => behaviour === 'invalid'))
      return { reply: refused(request), reports: [] };
    if (write === undefined) return { reports: [] };
    const make = async (message: TakenMessage, state: ReportedState): Promise<OutgoingReport | undefined> => {
      const known = await accountOf(message.reference);
      const url = message.callback ?? known?.receiptUrl;
      const report = url === undefined ? undefined : write(message, state, url);
      if (report === undefined) return undefined;
      const at = Date.now();
      const call = { ...report, body: Buffer.from(report.body), receivedAt: at };
      const signed = sign(call, known ?? message.account ?? NO_ACCOUNT, at);
      if (signed === undefined) return undefined;
      const { method, headers, body } = signed;
      const text = Buffer.from(body).toString();
      return { method, url: signed.url, headers, ...(text === '' ? {} : { body: text }) };
    };
    const reports = messages.flatMap((message) =>
      plannedReports(message.behaviour).map(({ afterMs, state }) => ({
        afterMs,
        make: () => make(message, state),
      })),
    );
    return { reports };
  };
}

/** @param to with or without its plus sign, as the vendor requires. */
export function behaviourOfDigits(to: string): Behaviour {
  return behaviourOfNumber(`+${to.replace(/^\+/, '')}`);
}

export function jsonReport(url: string, body: unknown): UnsignedReport {
  return {
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  };
}

export function formReport(url: string, form: Readonly<Record<string, string>>): UnsignedReport {
  return {
    method: 'POST',
    url,
    headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
    body: new URLSearchParams(form).toString(),
  };
}
