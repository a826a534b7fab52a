// Receives the events of tenants' endpoints, keeps its own ledger of them, and misbehaves on command. Each endpoint has its own
// path.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { verifyWebhook, type WebhookKeys } from '../../deploy/quickstart/verify-webhook.ts';
import { serveHelper } from './helper-process.ts';
import { openLedger } from './ledger-file.ts';
import type { ReceivedEvent, ReceiverTrouble } from './ledger.ts';

export type ReceiverCommand =
  | { readonly kind: 'know'; readonly path: string; readonly keys: WebhookKeys }
  | {
      readonly kind: 'behave';
      readonly trouble: ReceiverTrouble | 'none';
      readonly lateMs: number;
      /** Path of the one endpoint that is affected. Default: all. */
      readonly path?: string;
    };

export type ReceiverReport =
  | { readonly kind: 'listening'; readonly origin: string }
  | { readonly kind: 'changed' };

const [ledgerPath = '', host = ''] = process.argv.slice(2);
const ledger = openLedger(ledgerPath);
const known = new Map<string, WebhookKeys>();
let behaviour: Extract<ReceiverCommand, { kind: 'behave' }> = { kind: 'behave', trouble: 'none', lateMs: 0 };

const server = createServer((request, response) => {
  receive(request, response).catch(() => response.destroy());
});
const listen = (port: number): Promise<void> =>
  new Promise((resolve) => server.listen(port, host, () => resolve()));
await listen(0);
const { port } = server.address() as AddressInfo;

const report = serveHelper<ReceiverCommand, ReceiverReport>(
  (command) => {
    if (command.kind === 'know') known.set(command.path, command.keys);
    else void behave(command).then(() => report({ kind: 'changed' }));
  },
  () => ledger.close(),
);
report({ kind: 'listening', origin: `http://${host}:${port}` });

/** Applies a behaviour. `down` refuses connections and cuts open ones, as after a crash of the process. */
async function behave(next: typeof behaviour): Promise<void> {
  behaviour = next;
  if (next.trouble === 'down') {
    server.close();
    server.closeAllConnections();
  } else if (!server.listening) await listen(port);
}

const STATUS: Readonly<Record<'none' | 'unavailable' | 'gone' | 'late', number>> = {
  none: 204,
  late: 204,
  unavailable: 500,
  gone: 410,
};

function failoverOf(data: { why?: string; fromProviderId?: string | null; toProviderId?: string }) {
  return { why: data.why ?? '', from: data.fromProviderId ?? null, to: data.toProviderId ?? '' };
}

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const at = Date.now();
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const path = request.url ?? '';
  const { trouble, lateMs } =
    (behaviour.path ?? path) === path ? behaviour : { trouble: 'none' as const, lateMs: 0 };
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
  );
  const keys = known.get(path);
  // The worker called before this process knew the endpoint, and must retry.
  if (keys === undefined) return void response.writeHead(503).end();
  const verdict = verifyWebhook({ headers, body, at }, [keys]);
  // A fault moves the clocks of workers. A receiver refuses what they sign then, and the worker retries; the ledger does not
  // count it as a forgery.
  const signedAt = 1_000 * Number(headers['webhook-timestamp']);
  const signed = verdict.verified ? verdict : verifyWebhook({ headers, body, at: signedAt }, [keys]);
  const event = JSON.parse(body.toString()) as {
    id: string;
    type: string;
    data: {
      seq: number;
      messageId?: string;
      why?: string;
      fromProviderId?: string | null;
      toProviderId?: string;
    };
  };
  const isTaken = verdict.verified && (trouble === 'none' || trouble === 'late');
  if (trouble === 'late') await new Promise((resolve) => setTimeout(resolve, lateMs));
  ledger.append({
    endpointId: keys.endpointId,
    id: String(headers['webhook-id']),
    seq: event.data.seq,
    messageId: event.data.messageId ?? null,
    failover: event.type === 'message.failed_over' ? failoverOf(event.data) : null,
    fault: signed.verified ? (event.id === headers['webhook-id'] ? null : 'another id') : signed.reason,
    isTaken,
    at,
  } satisfies ReceivedEvent);
  if (trouble === 'hang') return;
  if (trouble === 'reset' || trouble === 'down') return void response.destroy();
  // The api stores a part of the answer, which must not contain the signature or the authorization of the call.
  const text = STATUS[trouble] === 204 ? undefined : JSON.stringify(headers);
  response.writeHead(verdict.verified ? STATUS[trouble] : 401).end(text);
}
