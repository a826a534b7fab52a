import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { LRUCache } from 'lru-cache';
import { openPlace } from '#providers/stand-in-place.ts';
import type { Received } from '#providers/stand-in.ts';
import { html, PAGE_HEADERS, renderPage } from './html.ts';
import { withNumber, type NumberRanges } from './number-ranges.ts';
import { eventOf } from './received-event.ts';
import { verifyWebhook, type WebhookKeys, type WebhookVerdict } from './verify-webhook.ts';
import { receivedPage } from './webhook-page.ts';

/** A call and the receiver's verdict. */
export type ReceivedWebhook = Received & {
  readonly signature: WebhookVerdict;
  /** The same event arrived before, also with a valid signature. */
  readonly repeated: boolean;
};

/** Returns the endpoints whose URL has the called path. */
export type WebhookKeysOf = (path: string) => Promise<readonly WebhookKeys[]>;

export type WebhookReceiver = AsyncDisposable & {
  readonly url: string;
  /** The most recent calls, oldest first. `GET /received` returns the same. */
  readonly received: readonly ReceivedWebhook[];
  /** Sets how to look up the endpoints' keys; before that every call is answered so that it is retried. */
  readonly know: (keysOf: WebhookKeysOf) => void;
};

const KEPT_MAX = 1_000;
/** Number of event ids kept to detect repetitions. */
const TAKEN_MAX = 100_000;
/** Total length of all bodies. */
const CHARACTERS_MAX = 64 * 1024 * 1024;
const BODY_BYTES_MAX = 1024 * 1024;
const JSON_HEADERS = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' };

/**
 * Starts a tenant's event receiver: accepts posts to any path, verifies their signatures and shows them on a page. Answers
 * 401 to a call that is not genuine; a repeated event gets the same answer as the first time.
 */
export async function startWebhookReceiver(options: { readonly port: number }): Promise<WebhookReceiver> {
  let known: WebhookKeysOf | undefined;
  const received: ReceivedWebhook[] = [];
  const numbers = new Map<string, NumberRanges>();
  const taken = new LRUCache<string, true>({ max: TAKEN_MAX });
  let characters = 0;

  /** Returns undefined when the verdict is unknown. */
  async function judge(call: Received, body: Buffer): Promise<WebhookVerdict | undefined> {
    try {
      const keys = await known?.(call.path.replace(/\?.*$/s, ''));
      return keys === undefined ? undefined : verifyWebhook({ ...call, body }, keys);
    } catch {
      return undefined;
    }
  }

  /** Records a genuine event. @returns whether it had arrived before. */
  function isKnown(endpointId: string, call: Received): boolean {
    const key = `${endpointId} ${call.headers['webhook-id']}`;
    const isRepeated = taken.has(key);
    taken.set(key, true);
    const { seq } = eventOf(call);
    if (seq !== undefined) numbers.set(endpointId, withNumber(numbers.get(endpointId) ?? [], seq));
    return isRepeated;
  }

  async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    if (body === undefined) return answer(response, 413, { error: 'the body is too large' });
    const { method = '', url: path = '', headers } = request;
    const call: Received = {
      method,
      path,
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
      body: body.toString(),
      at: Date.now(),
    };
    const signature = await judge(call, body);
    if (signature === undefined)
      return answer(response, 503, { error: 'what endpoints sign with is not known at the moment' });
    const repeated = signature.verified && isKnown(signature.endpointId, call);
    received.push({ ...call, signature, repeated });
    characters += call.body.length;
    while (received.length > KEPT_MAX || characters > CHARACTERS_MAX)
      characters -= received.shift()?.body.length ?? 0;
    answer(response, signature.verified ? 200 : 401, { ...signature, repeated });
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url: path } = request;
    if (method === 'POST') return take(request, response);
    if (method !== 'GET') return answer(response, 405, { error: 'events are posted' });
    if (path === '/received') return answer(response, 200, received);
    if (path === '/') {
      response.writeHead(200, PAGE_HEADERS).end(receivedPage(received, numbers));
      return;
    }
    const content = html`<h1>Not found</h1>
      <p><a href="/">All events</a></p>`;
    response.writeHead(404, PAGE_HEADERS).end(renderPage({ title: 'Not found', content }));
  }

  const listener: RequestListener = (request, response) => {
    serve(request, response).catch(() => response.destroy());
  };
  const place = await openPlace({ port: options.port }, listener);
  return {
    url: place.origin,
    received,
    know: (keysOf) => void (known = keysOf),
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  };
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, JSON_HEADERS).end(JSON.stringify(body));
}

/** Returns undefined when the body is larger than any event. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += (chunk as Buffer).length;
    if (bytes <= BODY_BYTES_MAX) chunks.push(chunk as Buffer);
  }
  return bytes > BODY_BYTES_MAX ? undefined : Buffer.concat(chunks);
}
