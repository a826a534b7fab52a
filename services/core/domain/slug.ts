/** A tenant's name in headers and resources: 1 to 63 lower-case letters, digits and inner hyphens. */
export const SLUG = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
