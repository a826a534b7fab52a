/** The query parameter that carries a message's id. */
const REFERENCE = 'mid';

/** The address for reports on one message, for a vendor that gives nothing back of what it was sent with. */
export function withReference(receiptUrl: string, messageId: string): string {
  return `${receiptUrl}?${REFERENCE}=${messageId}`;
}

/** What `withReference` has put into the address that was called. */
export function referenceOf(url: string): { readonly reference?: string } {
  const reference = URL.parse(url)?.searchParams.get(REFERENCE);
  return reference ? { reference } : {};
}
