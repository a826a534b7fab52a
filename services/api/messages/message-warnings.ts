import type { Channel } from '#core/domain/message/channel.ts';
import { accountsFor } from '#core/domain/routing/choose-account.ts';
import type { Warning } from '#core/domain/fault/warning.ts';
import { contentWarnings } from '#providers/content-limits.ts';
import { findProvider } from '#providers/registry.ts';
import { whyNone, type Routing } from './account-for.ts';
import type { SendMessage } from './send-message-schema.ts';

/** Returns warnings about a message that is accepted anyway. */
export function messageWarnings(message: SendMessage, { sendingAccounts, routes }: Routing): Warning[] {
  const { channel, providerId } = message;
  const able = accountsFor(sendingAccounts, { channel, pinned: providerId ?? null }, routes);
  return [
    ...textWarnings(message),
    // Only a test key gets this far without an account.
    ...(able.length === 0 ? [noProvider(channel, routes)] : []),
    ...[...new Set(able.map(({ provider }) => provider))].flatMap((id) => {
      const provider = findProvider(id);
      return provider === undefined ? [] : contentWarnings(provider, message);
    }),
  ];
}

function textWarnings(message: SendMessage): Warning[] {
  if (message.channel !== 'email') return [];
  const { bodyHtml, bodyText, body } = message;
  if (body !== undefined && (bodyHtml ?? bodyText) !== undefined) {
    return [
      { field: 'body', message: 'Ignored: it is the text where there is neither bodyHtml nor bodyText' },
    ];
  }
  if (bodyHtml || bodyText || body) return [];
  return [
    { field: 'bodyText', message: 'The email has no text: it has neither bodyHtml, bodyText nor body' },
  ];
}

function noProvider(channel: Channel, routes: Routing['routes']): Warning {
  const message = `${whyNone(channel, routes)}: with a live key this would be refused`;
  return { field: 'channel', message };
}
