import type { Received } from '#providers/stand-in.ts';
import { asList, asObject, parseObject, textOf } from './json-text.ts';

/** A message as it arrived at its provider. */
export type Arrival = {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly to: string;
  readonly from: string;
  /** The text that a person would read first. */
  readonly text: string;
  /** The other contents by name: data, template parts, media. */
  readonly facts?: readonly Fact[];
};

export type Fact = readonly [name: string, value: string];

/** Reads the message among a stand-in's requests; undefined for a token request, a check or an invalid request. */
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
  const { token, notification, data, ...rest } = asObject(message);
  const { title, body: text } = asObject(notification);
  return {
    at,
    to: textOf(token),
    from: project,
    text: lines(textOf(title), textOf(text)),
    facts: [
      ...Object.entries(asObject(data)).map(([name, value]): Fact => [`data ${name}`, shown(value)]),
      ...Object.entries(rest).map(([name, value]): Fact => [name, shown(value)]),
    ],
  };
}

export function readWhatsapp({ method, path, body, at }: Received): Arrival | undefined {
  const number = /^\/v[\d.]+\/(\d+)\/messages(?:\?|$)/.exec(path)?.[1];
  if (method !== 'POST' || number === undefined) return undefined;
  const message = parseObject(body);
  const type = textOf(message['type']);
  const content = whatsappContent(type, asObject(message[type]));
  return { at, to: textOf(message['to']), from: number, ...content };
}

const MEDIA = new Set(['image', 'video', 'audio', 'document']);

function whatsappContent(type: string, part: Record<string, unknown>): Pick<Arrival, 'text' | 'facts'> {
  if (type === 'text') return { text: textOf(part['body']) };
  if (MEDIA.has(type)) {
    const { link, caption, filename } = part;
    return { text: textOf(caption), facts: present([type, textOf(link)], ['file name', textOf(filename)]) };
  }
  if (type !== 'template') return { text: type === '' ? '' : JSON.stringify(part) };
  const { name, language, components } = part;
  return {
    text: `Template ${textOf(name)} (${textOf(asObject(language)['code'])})`,
    facts: asList(components).flatMap((component) => {
      const { type: place, index, sub_type: kind, parameters } = component;
      const title = [textOf(place), textOf(kind), textOf(index)].filter((word) => word !== '').join(' ');
      return asList(parameters).map((parameter, at): Fact => {
        const key = textOf(parameter['parameter_name']) || (place === 'body' ? String(at + 1) : '');
        return [`${title} ${key}`.trim(), parameterText(parameter)];
      });
    }),
  };
}

/** A template parameter stores its value in a field named after its type. */
function parameterText(parameter: Record<string, unknown>): string {
  const value = parameter[textOf(parameter['type'])];
  const link = textOf(asObject(value)['link']);
  return link === '' ? shown(value) : link;
}

function present(...facts: readonly Fact[]): Fact[] {
  return facts.filter(([, value]) => value !== '');
}

function lines(...texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join('\n');
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}
