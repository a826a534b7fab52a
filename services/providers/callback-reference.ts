/** The query parameter that carries a message's id. */
const REFERENCE = 'mid';

/** Returns the callback URL for reports on one message, for a vendor whose callbacks do not repeat our reference. */
export function withReference(receiptUrl: string, messageId: string): string {
  return `${receiptUrl}?${REFERENCE}=${messageId}`;
}

/** Reads the reference that `withReference` put into the called URL. */
export function referenceOf(url: string): { readonly reference?: string } {
  const reference = URL.parse(url)?.searchParams.get(REFERENCE);
  return reference ? { reference } : {};
}
