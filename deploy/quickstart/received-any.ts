import { asObject, parseObject, textOf } from './json-text.ts';
import type { Fact, ReadArrival } from './received.ts';

/** Names under which vendors take a recipient, a sender and a text; the first that holds one counts. */
const TO = ['to', 'dst', 'recipients', 'DestinationPhoneNumber', 'PhoneNumber', 'device'];
const FROM = ['from', 'src', 'originator', 'sender', 'OriginationIdentity', 'messaging_profile_id'];
const TEXT = ['text', 'body', 'MessageBody', 'Message', 'title', 'caption'];
const FACTS_MAX = 40;

/**
 * Reads whatever is posted with a recipient in it, as JSON or as a form, and shows all of it.
 * @param paths of requests that carry a message.
 */
export function readAny(paths: RegExp): ReadArrival {
  return ({ method, path, body, at }) => {
    if (method !== 'POST' || !paths.test(path)) return undefined;
    const device = /^\/3\/device\/([^/?]+)$/.exec(path)?.[1];
    const sent = body.startsWith('{') ? parseObject(body) : Object.fromEntries(new URLSearchParams(body));
    if (sent['type'] === 'gateway.check') return undefined;
    const facts = leavesOf({ ...sent, ...(device === undefined ? {} : { device }) });
    const find = (names: readonly string[]): string =>
      names
        .map((name) => facts.find(([place]) => place.split('.').some((part) => part === name))?.[1])
        .find((value) => value !== undefined) ?? '';
    const to = find(TO);
    if (to === '') return undefined;
    return { at, to, from: find(FROM), text: find(TEXT), facts: facts.slice(0, FACTS_MAX) };
  };
}

/** Each value by its place, such as `messages.0.content.text`. */
function leavesOf(value: unknown, place: readonly string[] = []): Fact[] {
  if (typeof value === 'object' && value !== null)
    return Object.entries(asObject(value)).flatMap(([name, one]) => leavesOf(one, [...place, name]));
  return value === undefined || value === null
    ? []
    : [[place.join('.'), textOf(value) || JSON.stringify(value)]];
}
