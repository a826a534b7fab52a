import type { LoadIds } from '#core/domain/id-loader.ts';
import type { MessagePlace } from '#core/domain/message-id.ts';
import type { MessageAddress } from '#core/store/messages.ts';
import type { KeyCaller, MemberCaller } from '../auth/auth.ts';

/** Where no message is. */
const NOWHERE: MessagePlace = { seq: 0, purgeOn: '2024-01-01' };

/** Which message a caller means by an id. One look, whether the id leads somewhere or not: an answer takes as long. */
export async function addressOf(
  loadIds: LoadIds,
  caller: KeyCaller | MemberCaller,
  id: string,
): Promise<MessageAddress> {
  const place = (await loadIds()).messages.decode(id) ?? NOWHERE;
  return { ...place, id, ...modeFor(caller) };
}

/** A key sees and changes the messages of its own mode; a person those of both, and may choose. */
export function modeFor(
  caller: KeyCaller | MemberCaller,
  wanted?: boolean,
): { readonly test?: boolean | undefined } {
  return { test: caller.kind === 'key' ? caller.key.mode === 'test' : wanted };
}
