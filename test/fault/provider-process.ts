// Stands in for the providers of four channels, keeps its own ledger of the calls, and misbehaves on command. Each worker has its
// own stand-ins, so that the ledger can name the worker that made a call.
import { startFcmStandIn } from '#providers/fcm/stand-in.ts';
import { startSendgridStandIn } from '#providers/sendgrid/stand-in.ts';
import type { Fault, OutgoingReport, Received } from '#providers/stand-in.ts';
import { startTwilioStandIn } from '#providers/twilio/stand-in.ts';
import { startWhatsappCloudStandIn } from '#providers/whatsapp-cloud/stand-in.ts';
import { serveHelper } from './helper-process.ts';
import { openLedger } from './ledger-file.ts';
import type { ProviderCall, ProviderTrouble, TakenReceipt } from './ledger.ts';
import { reportDelayMs } from './receipt-habits.ts';
import { tokenIn } from './token.ts';

export type ProviderCommand =
  | {
      readonly kind: 'behave';
      readonly trouble: ProviderTrouble | 'none';
      readonly lateMs: number;
      /** Prefix of the account ids that the trouble affects; empty: all accounts. */
      readonly accounts?: string;
    }
  /** Holds the worker's next call after the whole request was received. */
  | { readonly kind: 'hold'; readonly worker: string }
  | { readonly kind: 'release' }
  /** The api origins that receive the reports, in turn; empty: reports are not sent. */
  | { readonly kind: 'report'; readonly origins: readonly string[] };

export type ProviderReport =
  | {
      readonly kind: 'listening';
      readonly origins: Readonly<Record<string, Readonly<Record<string, string>>>>;
    }
  | { readonly kind: 'held' };

const [ledgerPath = '', receiptsPath = '', host = '', ...workers] = process.argv.slice(2);
const ledger = openLedger(ledgerPath);
const receipts = openLedger(receiptsPath);
let apis: readonly string[] = [];
let reported = 0;
let trouble: ProviderTrouble | 'none' = 'none';
let lateMs = 0;
let accounts = '';
let holding: { readonly worker: string; readonly released: PromiseWithResolvers<void> } | undefined;

const report = serveHelper<ProviderCommand, ProviderReport>(
  (command) => {
    switch (command.kind) {
      case 'behave':
        ({ trouble, lateMs, accounts = '' } = command);
        break;
      case 'hold':
        holding = { worker: command.worker, released: Promise.withResolvers() };
        break;
      case 'release':
        holding?.released.resolve();
        holding = undefined;
        break;
      case 'report':
        apis = command.origins;
    }
  },
  () => {
    ledger.close();
    receipts.close();
  },
);

const REPLIES: Readonly<Record<ProviderTrouble, Fault | undefined>> = {
  hang: { kind: 'hang' },
  reset: { kind: 'reset' },
  late: undefined,
  unavailable: { kind: 'reply', status: 503, body: {} },
  throttled: { kind: 'reply', status: 429, headers: { 'retry-after': '1' }, body: {} },
};

const TWILIO_ACCOUNT = /AC[0-9a-f]{32}/;

function accountIn(path: string): string {
  return TWILIO_ACCOUNT.exec(path)?.[0] ?? '';
}

function interfere(worker: string): (request: Received) => Promise<Fault | undefined> {
  return async ({ path, body }) => {
    const token = tokenIn(body);
    // The request carries no message: it fetches a token or checks a credential.
    if (token === undefined) return undefined;
    const account = accountIn(path);
    const answer = trouble === 'none' || !account.startsWith(accounts) ? 'accepted' : trouble;
    ledger.append({ token, worker, account, at: Date.now(), answer } satisfies ProviderCall);
    if (holding?.worker === worker) {
      report({ kind: 'held' });
      await holding.released.promise;
    }
    if (answer === 'late') await new Promise((resolve) => setTimeout(resolve, lateMs));
    return answer === 'accepted' ? undefined : REPLIES[answer];
  };
}

/** Delivers a report to the apis in turn, as a load balancer does. The signature covers the address that the worker gave. */
async function deliver(
  { url, headers = {}, body = '' }: OutgoingReport,
  request: Received,
): Promise<boolean> {
  const token = tokenIn(request.body);
  const account = accountIn(request.path);
  const delayMs = reportDelayMs(account, new URLSearchParams(request.body).get('To') ?? '', Math.random());
  // This account never reports on the message: claims success, so that the stand-in does not retry.
  if (delayMs === null) return true;
  if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
  const origin = apis[reported++ % Math.max(1, apis.length)];
  if (token === undefined || origin === undefined) return false;
  const { pathname, search } = new URL(url);
  const signal = AbortSignal.timeout(REPORT_MS_MAX);
  const isTaken = await fetch(origin + pathname + search, { method: 'POST', headers, body, signal }).then(
    ({ ok }) => ok,
    () => false,
  );
  const state = new URLSearchParams(body).get('MessageStatus') ?? '';
  if (isTaken) receipts.append({ token, account, state, at: Date.now() } satisfies TakenReceipt);
  return isTaken;
}

const REPORT_MS_MAX = 5_000;

const STAND_INS = {
  twilio: startTwilioStandIn,
  sendgrid: startSendgridStandIn,
  fcm: startFcmStandIn,
  'whatsapp-cloud': startWhatsappCloudStandIn,
};

const origins = await Promise.all(
  workers.map(async (worker) => {
    const started = Object.entries(STAND_INS).map(async ([id, start]) => {
      const { origin } = await start({
        host,
        keep: 1,
        isReporting: true,
        deliver,
        interfere: interfere(worker),
      });
      return [id, origin] as const;
    });
    return [worker, Object.fromEntries(await Promise.all(started))] as const;
  }),
);
report({ kind: 'listening', origins: Object.fromEntries(origins) });
