import { roleOf, textOf, textsOf } from './facts.ts';
import { lose, type Note } from './tenant-history.ts';

export const noteRemovedMember: Note = ({ members, mayReturn, isApplied }, { target, facts }) => {
  members.set(target, {
    isRemoved: true,
    role: null,
    since: textOf(facts['since']),
    invitations: members.get(target)?.invitations ?? [],
  });
  if (isApplied) mayReturn.add(target);
};

export const noteJoinedMember: Note = ({ members, mayReturn }, { target, facts }) => {
  members.set(target, {
    isRemoved: false,
    role: roleOf(facts['role']),
    since: textOf(facts['since']),
    invitations: [...(members.get(target)?.invitations ?? []), ...textsOf(facts['invitations'])],
  });
  if (facts['role'] === 'owner') mayReturn.delete(target);
};

export const noteAddedMember: Note = (history, entry) => {
  noteJoinedMember(history, entry);
  lose(history, entry);
};

export const noteRole: Note = (history, entry) => {
  noteJoinedMember(history, entry);
  if (entry.facts['role'] !== 'owner' && history.isApplied) history.mayReturn.add(entry.target);
};
