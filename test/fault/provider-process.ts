// Process that stands in for the providers of four channels, keeps its own ledger of what it was sent, and misbehaves
// on command. Each worker has stand-ins of its own, so that a call can be told apart by who made it.
import { startFcmStandIn } from '#providers/fcm/stand-in.ts';
import { startSendgridStandIn } from '#providers/sendgrid/stand-in.ts';
import type { Fault, Received } from '#providers/stand-in.ts';
import { startTwilioStandIn } from '#providers/twilio/stand-in.ts';
import { startWhatsappCloudStandIn } from '#providers/whatsapp-cloud/stand-in.ts';
import { serveHelper } from './helper-process.ts';
import { openLedger } from './ledger-file.ts';
import type { ProviderCall, ProviderTrouble } from './ledger.ts';
import { tokenIn } from './token.ts';

export type ProviderCommand =
  | { readonly kind: 'behave'; readonly trouble: ProviderTrouble | 'none'; readonly lateMs: number }
  /** Holds the next call of a worker after it was taken whole. */
  | { readonly kind: 'hold'; readonly worker: string }
  | { readonly kind: 'release' };

export type ProviderReport =
  | {
      readonly kind: 'listening';
      readonly origins: Readonly<Record<string, Readonly<Record<string, string>>>>;
    }
  | { readonly kind: 'held' };

const [ledgerPath = '', host = '', ...workers] = process.argv.slice(2);
const ledger = openLedger(ledgerPath);
let trouble: ProviderTrouble | 'none' = 'none';
let lateMs = 0;
let holding: { readonly worker: string; readonly released: PromiseWithResolvers<void> } | undefined;

const report = serveHelper<ProviderCommand, ProviderReport>((command) => {
  switch (command.kind) {
    case 'behave':
      ({ trouble, lateMs } = command);
      break;
    case 'hold':
      holding = { worker: command.worker, released: Promise.withResolvers() };
      break;
    case 'release':
      holding?.released.resolve();
      holding = undefined;
  }
}, ledger.close);

const REPLIES: Readonly<Record<ProviderTrouble, Fault | undefined>> = {
  hang: { kind: 'hang' },
  reset: { kind: 'reset' },
  late: undefined,
  unavailable: { kind: 'reply', status: 503, body: {} },
  throttled: { kind: 'reply', status: 429, headers: { 'retry-after': '1' }, body: {} },
};

function interfere(worker: string): (request: Received) => Promise<Fault | undefined> {
  return async ({ body }) => {
    const token = tokenIn(body);
    // A token request or a check of a credential.
    if (token === undefined) return undefined;
    const answer = trouble === 'none' ? 'accepted' : trouble;
    ledger.append({ token, worker, at: Date.now(), answer } satisfies ProviderCall);
    if (holding?.worker === worker) {
      report({ kind: 'held' });
      await holding.released.promise;
    }
    if (answer === 'late') await new Promise((resolve) => setTimeout(resolve, lateMs));
    return answer === 'accepted' ? undefined : REPLIES[answer];
  };
}

const STAND_INS = {
  twilio: startTwilioStandIn,
  sendgrid: startSendgridStandIn,
  fcm: startFcmStandIn,
  'whatsapp-cloud': startWhatsappCloudStandIn,
};

const origins = await Promise.all(
  workers.map(async (worker) => {
    const started = Object.entries(STAND_INS).map(async ([id, start]) => {
      const { origin } = await start({ host, keep: 1, interfere: interfere(worker) });
      return [id, origin] as const;
    });
    return [worker, Object.fromEntries(await Promise.all(started))] as const;
  }),
);
report({ kind: 'listening', origins: Object.fromEntries(origins) });
