/** A number in E.164 form as digits alone, which some vendors want; a short code or a name as it is. */
export function withoutPlus(address: string): string {
  return address.replace(/^\+(?=\d+$)/, '');
}
