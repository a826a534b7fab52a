import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import type { MessagePlace } from '#core/domain/storage/message-id.ts';
import type { MessageAddress } from '#core/store/messages/messages.ts';
import type { KeyCaller, MemberCaller } from '../auth/auth.ts';

/** A place that no message has. */
const NOWHERE: MessagePlace = { seq: 0, purgeOn: '2024-01-01' };

/**
 * Returns the message address that an id stands for. Makes exactly one lookup whether or not the message exists, so the
 * response time reveals nothing.
 */
export async function addressOf(
  loadIds: LoadIds,
  caller: KeyCaller | MemberCaller,
  id: string,
): Promise<MessageAddress> {
  const place = (await loadIds()).messages.decode(id) ?? NOWHERE;
  return { ...place, id, ...modeFor(caller) };
}

/** A key reads and changes only messages of its own mode; a person those of both modes, and may choose one. */
export function modeFor(
  caller: KeyCaller | MemberCaller,
  wanted?: boolean,
): { readonly test?: boolean | undefined } {
  return { test: caller.kind === 'key' ? caller.key.mode === 'test' : wanted };
}
