import { behaviourOfNumber, plannedReports, type Behaviour, type PlannedReport } from './behaviour.ts';
import type { ReceiptCall } from './receipt.ts';
import type { OutgoingReport, React, Received, Reply, SigningAccount } from './stand-in.ts';

/** A message that the vendor has taken; of one in parts, a part. */
export type TakenMessage = {
  /** The public id that it was sent with. */
  readonly reference: string;
  /** As it was sent. */
  readonly to: string;
  readonly behaviour: Behaviour;
  /** The vendor's id. */
  readonly providerMessageId: string;
  /** Where the message itself says that reports go. */
  readonly callback?: string;
  /** What else the vendor repeats, by its own names. */
  readonly fields?: Readonly<Record<string, string>>;
  /** What the vendor signs with where it does not know the account. */
  readonly account?: SigningAccount;
};

export type ReportedState = PlannedReport['state'];
export type UnsignedReport = Pick<ReceiptCall, 'method' | 'url' | 'headers'> & { readonly body: string };

/** How a vendor reports. */
export type Reporter = {
  /** Those of a request that was answered so; none where it is about something else, or was refused. */
  readonly taken: (request: Received, reply: Reply) => readonly TakenMessage[];
  /** The answer to a message whose recipient is to be refused. */
  readonly refused: (request: Received) => Reply;
  /** Absent where the vendor reports nothing. @param url where the vendor was told to call. */
  readonly write?: (message: TakenMessage, state: ReportedState, url: string) => UnsignedReport | undefined;
  /** Absent where the vendor signs nothing. Undefined where it does not call an account that is set up so. */
  readonly sign?: (call: ReceiptCall, account: SigningAccount, at: number) => ReceiptCall | undefined;
};

const NO_ACCOUNT: SigningAccount = { publicConfig: {}, secretConfig: {} };

/** Has a stand-in report as the vendor does. What becomes of a message is chosen by its recipient. */
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

/** @param to with or without its plus, as vendors want it. */
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
