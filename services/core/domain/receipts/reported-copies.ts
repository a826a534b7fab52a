import type { ReceiptKind } from '../sending/outcome.ts';

/**
 * What receipts report about a part of a copy. `failing`: undelivered, but may still be delivered; `bounced`: a bounce after
 * delivery; `hard`: undelivered with a hard bounce, of a copy whose failure the message does not show.
 */
type PartState = 'delivered' | 'bounced' | 'failing' | 'undelivered' | 'hard';

/**
 * What receipts report about each copy of a message that may exist, by the copy's name and then by the provider's name of the
 * segment. A message that was sent once has one copy, and so has one whose provider deduplicates.
 */
export type Copies = Readonly<Record<string, Readonly<Record<string, PartState>>>>;

/** Stands for a segment's name if a report is about the whole copy. */
export const WHOLE_COPY = '';
/** How many times as many segments a vendor may send as were counted. */
const SEGMENTS_RATIO_MAX = 2;
/** Prefix of the name of a copy whose attempt is unknown. */
const UNPLACED = '?';

/** The copies of a message: the number of begun attempts, and the number of segments of each copy. */
type CopyTerms = { readonly attempt: number; readonly segmentCount: number; readonly copies: Copies };

/**
 * Returns which copy, and which part of it, a report is about.
 * @param vendorId the provider's own id of the message.
 */
export function partOf(
  report: {
    readonly attempt: number | null;
    readonly segment?: string | undefined;
    readonly vendorId?: string | undefined;
  },
  { attempt, segmentCount }: Pick<CopyTerms, 'attempt' | 'segmentCount'>,
): { readonly copy: string; readonly part: string } {
  const part = segmentCount > 1 && report.segment !== undefined ? report.segment : WHOLE_COPY;
  const number = report.attempt ?? (attempt === 1 ? 1 : null);
  if (number !== null) return { copy: String(number), part };
  // Segments of one copy may have different ids.
  return { copy: part === WHOLE_COPY ? UNPLACED + (report.vendorId ?? '') : UNPLACED, part };
}

/**
 * Returns whether a message can have this copy and this part beside those that are known. A caller who knows a receipt URL, and
 * some vendors' accounts, choose these names freely: without a bound their record would grow with each report.
 */
export function isPossible(
  { attempt, segmentCount, copies }: CopyTerms,
  { copy, part }: { readonly copy: string; readonly part: string },
): boolean {
  const parts = copies[copy];
  const sent = Math.max(attempt, 1);
  const isUnplaced = copy.startsWith(UNPLACED);
  const others = Object.keys(copies).filter((name) => name.startsWith(UNPLACED) === isUnplaced);
  if (parts === undefined && others.length >= sent) return false;
  // Vendors may split a text into more segments than were counted. Those without a known attempt are in one record.
  const partsMax = SEGMENTS_RATIO_MAX * segmentCount * (copy === UNPLACED ? sent : 1);
  return part === WHOLE_COPY || Object.keys(parts ?? {}).length < partsMax;
}

/** Returns whether a copy is not the last one, and decides nothing by its failure. */
export function isEarlier(copy: string, { attempt }: Pick<CopyTerms, 'attempt'>): boolean {
  return copy !== String(attempt) && !copy.startsWith(UNPLACED);
}

/**
 * Returns the state of a part after a report. A final state stays, except for a bounce after the delivery; a temporary failure is
 * none, for it precedes the delivery however late its report arrives.
 */
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
      if (known === 'delivered') return isTemporary ? known : 'bounced';
      if (known === undefined) return isTemporary ? 'failing' : 'undelivered';
      return known === 'failing' && !isTemporary ? 'undelivered' : known;
  }
}

type CopiesEnd =
  | { readonly status: 'delivered'; readonly lateBounce: boolean }
  | { readonly status: 'undelivered'; readonly isTemporary: boolean };

/**
 * Returns the result over all copies of a message: delivered as soon as one copy is, else the result of the last copy. Undefined
 * while that is open. Failures of earlier copies decide nothing.
 */
export function endOfCopies(terms: CopyTerms): CopiesEnd | undefined {
  const { copies, segmentCount } = terms;
  const delivered = Object.entries(copies).flatMap(([copy, parts]) =>
    stateOf(copy, parts, segmentCount) === 'delivered' ? [parts] : [],
  );
  if (delivered.length > 0 || isOneComplete(terms)) {
    const lateBounce =
      delivered.length > 0 && delivered.every((parts) => Object.values(parts).includes('bounced'));
    return { status: 'delivered', lateBounce };
  }
  const deciding = Object.entries(copies)
    .filter(([copy]) => !isEarlier(copy, terms))
    .map(([copy, parts]) => stateOf(copy, parts, segmentCount));
  if (deciding.includes('undelivered')) return { status: 'undelivered', isTemporary: false };
  return deciding.includes('failing') ? { status: 'undelivered', isTemporary: true } : undefined;
}

/** Returns the state of a copy: delivered when all of its segments are, undelivered as soon as one is. */
function stateOf(
  copy: string,
  parts: Copies[string],
  segmentCount: number,
): 'delivered' | 'failing' | 'undelivered' | undefined {
  const states = Object.values(parts);
  // Segments without a known attempt may belong to several copies.
  const isComplete = copy !== UNPLACED && arrivedOf(parts) >= segmentCount;
  if (isArrived(parts[WHOLE_COPY]) || isComplete) return 'delivered';
  if (states.includes('undelivered') || states.includes('hard')) return 'undelivered';
  return states.includes('failing') ? 'failing' : undefined;
}

/**
 * Returns whether one copy must be complete although the copies of its segments are unknown: more segments have arrived than all
 * copies could have received without one being complete.
 */
function isOneComplete({ attempt, copies, segmentCount }: CopyTerms): boolean {
  if (copies[UNPLACED] === undefined || segmentCount === 1) return false;
  const arrived = Object.values(copies).reduce((sum, parts) => sum + arrivedOf(parts), 0);
  return arrived > attempt * (segmentCount - 1);
}

function arrivedOf(parts: Copies[string]): number {
  return Object.entries(parts).filter(([part, state]) => part !== WHOLE_COPY && isArrived(state)).length;
}

function isArrived(state: PartState | undefined): boolean {
  return state === 'delivered' || state === 'bounced';
}

/** Returns the copies that the record implies for a message that was reported on as a whole, with one copy. */
export function impliedCopies(
  attempt: number,
  status: string,
  { final, lateBounce }: { readonly final: boolean; readonly lateBounce: boolean },
): Copies {
  if (status === 'delivered') return { [attempt]: { [WHOLE_COPY]: lateBounce ? 'bounced' : 'delivered' } };
  if (status === 'undelivered') return { [attempt]: { [WHOLE_COPY]: final ? 'undelivered' : 'failing' } };
  return {};
}

/** Returns whether `impliedCopies` of the message returns the same, so that the copies need not be stored. */
export function areImplied(copies: Copies, attempt: number): boolean {
  return Object.entries(copies).every(
    ([copy, parts]) => copy === String(attempt) && Object.keys(parts).every((part) => part === WHOLE_COPY),
  );
}
