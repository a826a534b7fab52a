/**
 * The most characters of a text and of words that are compared, a few milliseconds of work. Ordinary texts take some thousands: a
 * comparison ends at the first character that differs.
 */
const COMPARED_MAX = 1_000_000;

/**
 * Returns a function that replaces every occurrence of the words in a text by a mark; occurrences that overlap by one mark. It returns
 * undefined if that takes too many comparisons. The search of the language is not used, because it has no such limit: it compares
 * `aa…ab` as a whole at each position of a text of `a`s.
 */
export function createWordHider(
  words: readonly string[],
  mark: string,
): (text: string) => string | undefined {
  const byStart = Map.groupBy(
    words.filter((word) => word !== '').toSorted((a, b) => b.length - a.length),
    (word) => word.charCodeAt(0),
  );
  return (text) => {
    let compared = 0;
    let hidden = '';
    /** Start and end of what is hidden next; it grows while occurrences overlap. */
    let start = 0;
    let end = 0;
    /** End of what has been copied to the result. */
    let copied = 0;
    function copy(): void {
      if (end === start) return;
      hidden += text.slice(copied, start) + mark;
      copied = end;
    }
    for (let at = 0; at < text.length; at += 1) {
      for (const word of byStart.get(text.charCodeAt(at)) ?? []) {
        const same = sameLength(text, at, word);
        compared += same;
        if (compared > COMPARED_MAX) return undefined;
        if (same < word.length) continue;
        if (at >= end) {
          copy();
          start = at;
        }
        end = Math.max(end, at + word.length);
        break;
      }
    }
    copy();
    return hidden + text.slice(copied);
  };
}

/** Returns how many characters the word and the text from this position have in common; the first one is known to be. */
function sameLength(text: string, at: number, word: string): number {
  let same = 1;
  while (same < word.length && text.charCodeAt(at + same) === word.charCodeAt(same)) same += 1;
  return same;
}
