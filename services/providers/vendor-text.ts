/** Maximum stored length of a vendor's text or name, in characters. */
export const VENDOR_TEXT_MAX = 512;
/** Maximum stored length of a provider's own code, in characters. */
export const PROVIDER_CODE_MAX = 64;

/**
 * Returns the beginning of a vendor's text, without what the database accepts in no text: NUL and lone surrogates. One such
 * text would make it refuse everything that is written with it, other tenants' rows too.
 */
export function vendorText(text: string, lengthMax = VENDOR_TEXT_MAX): string {
  const start = text.length <= lengthMax ? text : text.slice(0, lengthMax).replace(/[\ud800-\udbff]$/, '');
  return start.replaceAll('\0', '').toWellFormed();
}

/**
 * Returns a vendor's id or sender as it is stored; undefined if it is too long, because the beginning of an id may be the id of
 * another message. The same for attempts and reports, so that an id in a report still equals that of its attempt.
 */
export function vendorName(name: string | null | undefined): string | undefined {
  return name == null || name.length > VENDOR_TEXT_MAX ? undefined : vendorText(name) || undefined;
}
