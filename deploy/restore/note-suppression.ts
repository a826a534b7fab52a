import { textOf } from './facts.ts';
import { lose, type Note } from './tenant-history.ts';

export const noteSuppression: Note = (history, entry) => {
  const { target, at, actor, facts } = entry;
  const [channel, addressKey] = [textOf(facts['channel']), textOf(facts['addressKey'])];
  const [reason, scope] = [textOf(facts['reason']), textOf(facts['scope'])];
  if (channel === null || addressKey === null || reason === null || scope === null)
    return lose(history, entry);
  const key = `${addressKey} ${reason}`;
  history.suppressionKeys.set(target, key);
  history.suppressions.set(key, {
    id: target,
    at,
    isByRecipient: actor === 'recipient',
    channel,
    addressKey,
    reason,
    scope,
    expiresAt: textOf(facts['expiresAt']),
  });
};

/** An entry that the restore brought back stays, because nobody may get a right that they did not have. */
export const noteRemovedSuppression: Note = ({ suppressions, suppressionKeys }, { target }) => {
  const key = suppressionKeys.get(target);
  if (key !== undefined && suppressions.get(key)?.id === target) suppressions.delete(key);
};
