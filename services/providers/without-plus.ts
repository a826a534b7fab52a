/** Returns an E.164 number as digits only, as some vendors require; a short code or a name is unchanged. */
export function withoutPlus(address: string): string {
  return address.replace(/^\+(?=\d+$)/, '');
}
