/** Whether two entity tags name the same state, by the weak comparison (RFC 9110, 8.8.3.2). */
export function sameTag(one: string, other: string): boolean {
  return opaqueTag(one) === opaqueTag(other);
}

function opaqueTag(tag: string): string {
  return tag.replace(/^W\//, '');
}
