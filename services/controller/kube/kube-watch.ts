import { StringDecoder } from 'node:string_decoder';
import { unanswered, type KubeStatus } from './kube-error.ts';
import { ANSWER_BYTES_MAX, parseJson, statusError, unreadable } from './kube-exchange.ts';
import type { KubeObject, KubeWatchEvent } from './kube-object.ts';

/**
 * Reads a watch to its end: one JSON object per line. No line is skipped: an unreadable line could be a change that would
 * then be lost.
 * @throws KubeError errors reported by the server, above all 410 for an expired version; `Unreadable`.
 */
export async function readWatch<T extends KubeObject>(
  chunks: AsyncIterable<Uint8Array>,
  onEvent: (event: KubeWatchEvent<T>) => void,
): Promise<void> {
  for await (const line of linesOf(chunks)) onEvent(toEvent<T>(parseJson(line)));
}

async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8');
  let parts: string[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    const text = decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    let start = 0;
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', start)) {
      const line = parts.join('') + text.slice(start, at);
      parts = [];
      length = 0;
      start = at + 1;
      if (line.trim() !== '') yield line;
    }
    // Collected in parts: a large object arrives in many chunks, and each concatenation would copy all of it.
    if (start < text.length) parts.push(text.slice(start));
    length += text.length - start;
    if (length > ANSWER_BYTES_MAX) throw unanswered('TooLarge', 'An event of a watch is too large');
  }
  // A server that closes normally ends with a complete line.
  if (parts.join('').trim() !== '')
    throw unreadable('The API server ended a watch in the middle of an event');
}

function toEvent<T extends KubeObject>(line: unknown): KubeWatchEvent<T> {
  const { type, object } = (line ?? {}) as { readonly type?: unknown; readonly object?: unknown };
  if (typeof object !== 'object' || object === null) throw unreadable('An event of a watch has no object');
  if (type === 'ERROR') {
    const status = object as KubeStatus;
    throw statusError(status, status.code ?? 500);
  }
  const known = object as T;
  if (typeof known.metadata?.resourceVersion !== 'string')
    throw unreadable('An event of a watch has no version');
  if (type === 'BOOKMARK') return { type, resourceVersion: known.metadata.resourceVersion };
  if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') return { type, object: known };
  throw unreadable('An event of a watch has an unknown type');
}
