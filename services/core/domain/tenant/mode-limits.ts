import type { NamedLimit } from '../fault/app-error.ts';
import { INT32_MAX } from '../int32-max.ts';
import type { Limits } from './plan.ts';

/** How many test messages each message of the plan's day stands for. */
const TEST_FACTOR = 10;
const TEST_MESSAGES_MIN = 100_000;

/**
 * Returns the limit of messages that a tenant may have accepted in one UTC day, by mode. Test messages do not count against
 * `messagesPerDay`. They take as much room in the database as others, so they have a limit of their own: ten times as many, and at
 * least 100,000.
 */
export function dailyLimit({ messagesPerDay }: Pick<Limits, 'messagesPerDay'>, isTest: boolean): NamedLimit {
  return isTest
    ? { name: 'testMessagesPerDay', value: testMessagesPerDay(messagesPerDay) }
    : { name: 'messagesPerDay', value: messagesPerDay };
}

/**
 * Returns the limit of accepted messages that may still be sent. Live and test messages count together, and test messages may fill
 * half of it: whoever has a test key alone cannot stop live ones.
 */
export function backlogLimit({ backlogMax }: Pick<Limits, 'backlogMax'>, isTest: boolean): NamedLimit {
  return { name: 'backlogMax', value: isTest ? Math.ceil(backlogMax / 2) : backlogMax };
}

function testMessagesPerDay(messagesPerDay: number): number {
  return Math.min(Math.max(TEST_FACTOR * messagesPerDay, TEST_MESSAGES_MIN), INT32_MAX);
}
