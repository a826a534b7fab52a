import type { ReceiptKind } from './outcome.ts';

/** What receipts say of a part of a copy. `failing`: undelivered, and may yet be delivered; `bounced`: delivered first. */
type PartState = 'delivered' | 'bounced' | 'failing' | 'undelivered';

/**
 * What receipts say of each copy of a message that may be under way, by its name and then by the provider's name of the
 * segment. A message that was sent once has one copy, and so has one whose provider guards against others.
 */
export type Copies = Readonly<Record<string, Readonly<Record<string, PartState>>>>;

/** In the place of a segment's name: all of the copy. */
export const WHOLE = '';
/** Begins the name of a copy of which nobody knows by which attempt it went out. */
const UNPLACED = '?';

/** The copies that a message with this many attempts begun may have, of so many segments each. */
type CopyTerms = { readonly attempt: number; readonly segmentCount: number; readonly copies: Copies };

/** Which copy, and which part of it, a report speaks of. @param vendorId the provider's own id of the message. */
export function partOf(
  report: {
    readonly attempt: number | null;
    readonly segment?: string | undefined;
    readonly vendorId?: string | undefined;
  },
  { attempt, segmentCount }: Pick<CopyTerms, 'attempt' | 'segmentCount'>,
): { readonly copy: string; readonly part: string } {
  const part = segmentCount > 1 && report.segment !== undefined ? report.segment : WHOLE;
  const number = report.attempt ?? (attempt === 1 ? 1 : null);
  if (number !== null) return { copy: String(number), part };
  // Segments of one copy may bear different ids.
  return { copy: part === WHOLE ? UNPLACED + (report.vendorId ?? '') : UNPLACED, part };
}

/** What is known of a part after a report. What is final stays, but for a bounce after the delivery. */
export function nextPartState(
  known: PartState | undefined,
  state: ReceiptKind,
  isTemporary: boolean,
): PartState | undefined {
  switch (state) {
    case 'sent':
      return known;
    case 'delivered':
      return known === undefined || known === 'failing' ? 'delivered' : known;
    case 'undelivered':
      if (known === 'delivered') return 'bounced';
      if (known === undefined) return isTemporary ? 'failing' : 'undelivered';
      return known === 'failing' && !isTemporary ? 'undelivered' : known;
  }
}

type CopiesEnd =
  | { readonly status: 'delivered'; readonly lateBounce: boolean }
  | { readonly status: 'undelivered'; readonly isTemporary: boolean };

/**
 * What the copies of a message come to: delivered as soon as one is, else what became of the last one. Undefined while
 * that is open. Earlier ones that fail decide nothing.
 */
export function endOfCopies(terms: CopyTerms): CopiesEnd | undefined {
  const { attempt, copies, segmentCount } = terms;
  const delivered = Object.entries(copies).flatMap(([copy, parts]) =>
    stateOf(copy, parts, segmentCount) === 'delivered' ? [parts] : [],
  );
  if (delivered.length > 0 || isOneComplete(terms)) {
    const lateBounce =
      delivered.length > 0 && delivered.every((parts) => Object.values(parts).includes('bounced'));
    return { status: 'delivered', lateBounce };
  }
  const deciding = Object.entries(copies)
    .filter(([copy]) => copy === String(attempt) || copy.startsWith(UNPLACED))
    .map(([copy, parts]) => stateOf(copy, parts, segmentCount));
  if (deciding.includes('undelivered')) return { status: 'undelivered', isTemporary: false };
  return deciding.includes('failing') ? { status: 'undelivered', isTemporary: true } : undefined;
}

/** A copy is delivered when all of its segments are, and undelivered as soon as one is. */
function stateOf(
  copy: string,
  parts: Copies[string],
  segmentCount: number,
): 'delivered' | 'failing' | 'undelivered' | undefined {
  const states = Object.values(parts);
  // Segments that nobody can place may be of several copies.
  const isComplete = copy !== UNPLACED && arrivedOf(parts) >= segmentCount;
  if (isArrived(parts[WHOLE]) || isComplete) return 'delivered';
  return states.includes('undelivered') ? 'undelivered' : states.includes('failing') ? 'failing' : undefined;
}

/** Where nobody knows which copy a segment is of: more have arrived than all copies could have without one being complete. */
function isOneComplete({ attempt, copies, segmentCount }: CopyTerms): boolean {
  if (copies[UNPLACED] === undefined || segmentCount === 1) return false;
  const arrived = Object.values(copies).reduce((sum, parts) => sum + arrivedOf(parts), 0);
  return arrived > attempt * (segmentCount - 1);
}

function arrivedOf(parts: Copies[string]): number {
  return Object.entries(parts).filter(([part, state]) => part !== WHOLE && isArrived(state)).length;
}

function isArrived(state: PartState | undefined): boolean {
  return state === 'delivered' || state === 'bounced';
}

/** What the record says of a message that was reported on as a whole, and of no other copy of it. */
export function impliedCopies(
  attempt: number,
  status: string,
  { final, lateBounce }: { readonly final: boolean; readonly lateBounce: boolean },
): Copies {
  if (status === 'delivered') return { [attempt]: { [WHOLE]: lateBounce ? 'bounced' : 'delivered' } };
  if (status === 'undelivered') return { [attempt]: { [WHOLE]: final ? 'undelivered' : 'failing' } };
  return {};
}

/** Whether `impliedCopies` of the message gives the same, so that they need not be stored. */
export function areImplied(copies: Copies, attempt: number): boolean {
  return Object.entries(copies).every(
    ([copy, parts]) => copy === String(attempt) && Object.keys(parts).every((part) => part === WHOLE),
  );
}
