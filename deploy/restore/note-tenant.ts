import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import { textOf } from './facts.ts';
import { lose, type LastSuspension, type Note } from './tenant-history.ts';

export const notePurge: Note = (history, { tenantId, at, facts }) => {
  const uid = textOf(facts['uid']);
  history.purge = { uid: uid ?? tenantId, at };
  if (uid !== null) history.gone.push(uid);
};

export const noteSuspension: Note = (history, entry) => {
  history.suspension = suspensionFor(textOf(entry.facts['reason']), entry);
};

export const noteApplied: Note = (history, entry) => {
  history.suspension = suspensionFor(textOf(entry.facts['suspension']), entry);
  history.isApplied = true;
};

export const noteRetained: Note = (history, entry) => {
  const uid = textOf(entry.facts['uid']);
  history.suspension = retained(history.suspension, entry);
  history.isRetained = true;
  if (uid !== null) history.gone.push(uid);
};

export const noteBrake: Note = (history, entry) => {
  const { facts, at } = entry;
  const { rate, bound, gapMs } = facts;
  const [channel, level, reason] = [
    textOf(facts['channel']),
    textOf(facts['level']),
    textOf(facts['reason']),
  ];
  if (channel === null || level === null || reason === null) return lose(history, entry);
  if (typeof rate !== 'number' || typeof bound !== 'number' || typeof gapMs !== 'number')
    return lose(history, entry);
  history.brakes.set(channel, {
    applied: { level, reason, rate, bound, gapMs, at },
    liftedAt: history.brakes.get(channel)?.liftedAt ?? null,
    isLifted: false,
  });
};

export const noteLiftedBrakes: Note = (history, entry) => {
  const { channels } = entry.facts;
  if (!Array.isArray(channels)) return lose(history, entry);
  for (const channel of channels as readonly string[]) {
    const applied = history.brakes.get(channel)?.applied ?? null;
    history.brakes.set(channel, { applied, liftedAt: entry.at, isLifted: true });
  }
};

function suspensionFor(reason: string | null, { at, actor }: AuditEntry): LastSuspension {
  return { isSuspended: reason !== null, reason, at, by: actor };
}

/** Keeps the reason of a tenant that was suspended already, as the deletion of its resource did. */
function retained(before: LastSuspension | null, { at, actor }: AuditEntry): LastSuspension {
  if (before?.isSuspended === true) return before;
  return { isSuspended: true, reason: before === null ? null : 'manual', at, by: actor };
}
