import { textOf } from './facts.ts';
import { lose, type LastKey, type Note, type TenantHistory } from './tenant-history.ts';

export const noteRevokedKey: Note = (history, { target }) => {
  change(history, target, () => ({ isRevoked: true }));
};

export const noteUpdatedKey: Note = (history, { target, facts }) => {
  change(history, target, ({ scopes, until }) => ({
    scopes: Array.isArray(facts['scopes']) ? facts['scopes'] : scopes,
    until: earlier(until, textOf(facts['expiresAt'])),
  }));
};

/** The new secret is not logged; the one in the database is valid until the end of the rotation's grace period at most. */
export const noteRotatedKey: Note = (history, entry) => {
  const end = textOf(entry.facts['graceUntil']) ?? entry.at;
  change(history, entry.target, ({ until }) => ({ until: earlier(until, end) }));
  lose(history, entry);
};

function change({ keys }: TenantHistory, id: string, to: (key: LastKey) => Partial<LastKey>): void {
  const key = keys.get(id) ?? { isRevoked: false, scopes: null, until: null };
  keys.set(id, { ...key, ...to(key) });
}

function earlier(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b;
  return Date.parse(a) <= Date.parse(b) ? a : b;
}
