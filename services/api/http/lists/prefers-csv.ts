const CSV = 'text/csv';

/** One media range of an `Accept` header, such as `text/*;q=0.5`, in lower case. */
type MediaRange = { readonly type: string; readonly quality: number };

/**
 * Returns whether the `Accept` header (RFC 9110, section 12.5.1) prefers CSV. Of two equally weighted types, the one that the header
 * names first is preferred; a type that is only part of a wildcard is not named.
 * @param other the media type that is sent otherwise.
 */
export function prefersCsv(accept: string, other: string): boolean {
  const ranges = mediaRanges(accept);
  const csv = qualityOf(CSV, ranges);
  const rest = qualityOf(other, ranges);
  if (csv !== rest) return csv > rest;
  return csv > 0 && placeOf(CSV, ranges) < placeOf(other, ranges);
}

function mediaRanges(accept: string): MediaRange[] {
  return accept
    .toLowerCase()
    .split(',')
    .map((range) => {
      const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
      const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
      // A weight that is not a number accepts nothing.
      return { type, quality: weight === undefined ? 1 : Number(weight) || 0 };
    });
}

/** Returns the weight of the most specific range that the media type matches; 0 if it matches none. */
function qualityOf(mediaType: string, ranges: readonly MediaRange[]): number {
  const matching = [mediaType, mediaType.replace(/\/.*/, '/*'), '*/*'];
  const found = matching.map((range) => ranges.find(({ type }) => type === range));
  return found.find((range) => range !== undefined)?.quality ?? 0;
}

function placeOf(mediaType: string, ranges: readonly MediaRange[]): number {
  const place = ranges.findIndex(({ type }) => type === mediaType);
  return place === -1 ? Infinity : place;
}
