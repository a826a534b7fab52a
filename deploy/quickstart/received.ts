import type { Received } from '#providers/stand-in.ts';

/** What a message looked like when it arrived at its provider. */
export type Arrival = {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly to: string;
  readonly from: string;
  readonly text: string;
};

/** Reads the messages among what a stand-in received; undefined for a token request, a check or nonsense. */
export type ReadArrival = (request: Received) => Arrival | undefined;

export function readTwilio({ method, path, body, at }: Received): Arrival | undefined {
  if (method !== 'POST' || !path.endsWith('/Messages.json')) return undefined;
  const form = new URLSearchParams(body);
  const from = form.get('From') ?? form.get('MessagingServiceSid') ?? '';
  return { at, to: form.get('To') ?? '', from, text: form.get('Body') ?? '' };
}

export function readFcm({ method, path, body, at }: Received): Arrival | undefined {
  const project = /^\/v1\/projects\/([\w-]+)\/messages:send$/.exec(path)?.[1];
  if (method !== 'POST' || project === undefined) return undefined;
  const { message, validate_only: isCheck } = parseObject(body);
  if (isCheck === true) return undefined;
  const { token, notification, data } = asObject(message);
  const { title, body: text } = asObject(notification);
  const parts = [title, text, data === undefined ? undefined : JSON.stringify(data)];
  return {
    at,
    to: textOf(token),
    from: project,
    text: parts
      .map(textOf)
      .filter((part) => part !== '')
      .join(' · '),
  };
}

export function readWhatsapp({ method, path, body, at }: Received): Arrival | undefined {
  const number = /^\/v[\d.]+\/(\d+)\/messages$/.exec(path)?.[1];
  if (method !== 'POST' || number === undefined) return undefined;
  const message = parseObject(body);
  const type = textOf(message['type']);
  const text = type === 'text' ? textOf(asObject(message['text'])['body']) : JSON.stringify(message[type]);
  return { at, to: textOf(message['to']), from: number, text: text ?? '' };
}

function parseObject(json: string): Record<string, unknown> {
  try {
    return asObject(JSON.parse(json));
  } catch {
    return {};
  }
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
