/** A recipient's interaction with a message. It is no state: a message may be opened before its delivery is reported. */
export const ENGAGEMENTS = ['opened', 'clicked', 'read', 'complained', 'unsubscribed'] as const;
export type Engagement = (typeof ENGAGEMENTS)[number];
