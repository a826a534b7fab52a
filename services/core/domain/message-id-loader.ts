import { createMessageIds, type MessageIds } from './message-id.ts';

/** @throws what kept the key from being loaded; the next call tries again. */
export type LoadMessageIds = () => Promise<MessageIds>;

/** The key is in the database, which may be away while a process starts: it is loaded when it is first needed. */
export function createMessageIdLoader(loadKey: () => Promise<Buffer>): LoadMessageIds {
  let ids: Promise<MessageIds> | undefined;
  return () => {
    ids ??= loadKey().then(createMessageIds, (error: unknown) => {
      ids = undefined;
      throw error;
    });
    return ids;
  };
}
