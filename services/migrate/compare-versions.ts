/**
 * Compares two versions by the precedence of Semantic Versioning: a prerelease comes before its release, build metadata does not
 * count.
 * @returns negative, zero or positive, as `Array.sort` expects.
 */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [parsed(a), parsed(b)];
  return (
    compareParts(one.core, other.core) ||
    Number(one.pre.length === 0) - Number(other.pre.length === 0) ||
    compareParts(one.pre, other.pre)
  );
}

function parsed(version: string): { readonly core: readonly string[]; readonly pre: readonly string[] } {
  const [plain = ''] = version.split('+');
  const dash = plain.indexOf('-');
  if (dash === -1) return { core: plain.split('.'), pre: [] };
  return { core: plain.slice(0, dash).split('.'), pre: plain.slice(dash + 1).split('.') };
}

/** Numbers by value and before words, words by ASCII; of two lists that begin alike, the shorter comes first. */
function compareParts(a: readonly string[], b: readonly string[]): number {
  for (const [index, one] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    if (one === other) continue;
    const [isNumber, isOtherNumber] = [NUMBER.test(one), NUMBER.test(other)];
    if (isNumber && isOtherNumber) return Number(one) - Number(other);
    if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
    return one < other ? -1 : 1;
  }
  return a.length - b.length;
}

const NUMBER = /^\d+$/;
