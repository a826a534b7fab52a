/** What a message is for; decides how long it is worth sending. */
export const CATEGORIES = ['transactional', 'otp', 'marketing'] as const;
export type Category = (typeof CATEGORIES)[number];

/** The most urgent first. Stored as their index in this list. */
export const PRIORITIES = ['high', 'normal', 'bulk'] as const;
export type Priority = (typeof PRIORITIES)[number];
