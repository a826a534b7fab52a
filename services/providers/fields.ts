import { z } from 'zod';

/** Visible ASCII without spaces: valid in a header and, once encoded, in a form field and a URL. */
const TOKEN = /^[\x21-\x7e]+$/;

/** A key, token or secret of a provider. 1 to 4096 visible ASCII characters. */
export function token(description: string) {
  return z
    .string()
    .min(1, 'Must not be empty')
    .max(4096, 'Must be at most 4096 characters')
    .regex(TOKEN, 'Must be visible ASCII characters without spaces')
    .describe(description);
}

export function optionalToken(description: string) {
  return token(description).optional();
}

/** One label of a vendor's host name; prevents tenant input from selecting another host. */
export function hostLabel(description: string) {
  return z
    .string()
    .regex(
      /^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/,
      'Must be lower-case letters, digits and hyphens, at most 32',
    )
    .describe(description);
}

/** A vendor's decimal identifier, kept as text. */
export function digits(description: string) {
  return z
    .string()
    .regex(/^\d{1,32}$/, 'Must be 1 to 32 digits')
    .describe(description);
}

/** The catalog shows it to readers in languages whose expressions have no `\P{Cc}`, such as Python. */
// oxlint-disable-next-line no-control-regex -- control characters are what it refuses
const NO_CONTROL = /^[^\x00-\x1f\x7f-\x9f]+$/;

/** Display text for a header field: no control characters. 1 to 200 characters. */
export function headerText(description: string) {
  return z
    .string()
    .min(1, 'Must not be empty')
    .max(200, 'Must be at most 200 characters')
    .regex(NO_CONTROL, 'Must not contain control characters')
    .describe(description);
}

/** A bare mail address. */
export function mailAddress(description: string) {
  return z.email('Must be an email address').max(254, 'Must be at most 254 characters').describe(description);
}
