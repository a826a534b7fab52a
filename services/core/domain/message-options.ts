/** What a message is for; decides how long it is worth sending. */
export const CATEGORIES = ['transactional', 'otp', 'marketing'] as const;
export type Category = (typeof CATEGORIES)[number];

/** Stored as their place in this list. */
export const PRIORITIES = ['high', 'normal', 'bulk'] as const;
