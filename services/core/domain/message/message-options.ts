/** The purpose of a message, which determines how long sending it is useful. */
export const CATEGORIES = ['transactional', 'otp', 'marketing'] as const;
export type Category = (typeof CATEGORIES)[number];

/** The most urgent first. Stored as the index in this list. */
export const PRIORITIES = ['high', 'normal', 'bulk'] as const;
export type Priority = (typeof PRIORITIES)[number];
