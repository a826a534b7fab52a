/** Minimum length of what is redacted for its value alone: shorter texts are no secrets, and would occur within ordinary words. */
export const REDACTED_LENGTH_MIN = 8;
