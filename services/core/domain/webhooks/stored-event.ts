import type { Channel } from '../message/channel.ts';
import type { FeedEventType } from './feed-event.ts';
import type { Category } from '../message/message-options.ts';

/** A numbered event with its stored facts. Events of deleted messages are not read. */
export type StoredEvent = {
  readonly seq: number;
  readonly id: string;
  readonly type: FeedEventType;
  readonly at: Date;
  /** Details from the event's own row: failure, engagement and so on. */
  readonly details: Readonly<Record<string, unknown>> | null;
  /** Null if the event is not about a message. */
  readonly message: {
    readonly sequence: number;
    readonly id: string;
    readonly test: boolean;
    readonly externalId: string | null;
    readonly channel: Channel;
    readonly to: string;
    readonly category: Category;
    readonly metadata: Readonly<Record<string, unknown>> | null;
    readonly tags: readonly string[] | null;
    /** Number of the last attempt that had ended at the time of the event. */
    readonly attempt: number | null;
    readonly accountId: string | null;
    readonly provider: string | null;
    /** Whether the event states the end of the message: no further event is expected, or the result stays unknown. */
    readonly isFinal: boolean;
  } | null;
};
