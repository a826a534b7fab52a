import { asObject, parseObject, textOf } from './json-text.ts';
import type { Fact, ReadArrival } from './received.ts';

/** Field names that vendors use for recipient, sender and text; the first one with a value is used. */
const TO = ['to', 'dst', 'recipients', 'DestinationPhoneNumber', 'PhoneNumber', 'device'];
const FROM = ['from', 'src', 'originator', 'sender', 'OriginationIdentity', 'messaging_profile_id'];
const TEXT = ['text', 'body', 'MessageBody', 'Message', 'title', 'caption'];
const FACTS_MAX = 40;

/**
 * Reads any posted JSON or form with a recipient in it, and shows all of its values.
 * @param paths matches requests that carry a message.
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

/** Returns each value with its path, such as `messages.0.content.text`. */
function leavesOf(value: unknown, place: readonly string[] = []): Fact[] {
  if (typeof value === 'object' && value !== null)
    return Object.entries(asObject(value)).flatMap(([name, one]) => leavesOf(one, [...place, name]));
  return value === undefined || value === null
    ? []
    : [[place.join('.'), textOf(value) || JSON.stringify(value)]];
}
