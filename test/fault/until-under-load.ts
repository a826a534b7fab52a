import { storedMessages } from './records.ts';
import type { Servers } from './servers.ts';

/** Number of messages, about one second of the load. */
const STORED = 100;
const WAIT_MS_MAX = 30_000;
const LOOK_MS = 100;

/** Waits until messages are stored, so that a fault has something to lose: on a busy machine the first requests take seconds. */
export async function untilUnderLoad(ask: Servers['ask']): Promise<void> {
  const deadline = Date.now() + WAIT_MS_MAX;
  while ((await ask((sql) => storedMessages(sql, STORED))) < STORED && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
