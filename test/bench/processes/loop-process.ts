// Calls the provider and does nothing else: the floor of a drain.
import { answerCommands } from '../measure/helper.ts';
import { createProviderCall, PROVIDER_CONNECTIONS } from './provider-call.ts';
import { messageText } from '../load/request-text.ts';

export type LoopCommand = {
  readonly port: number;
  readonly messages: number;
  /** The most calls at once, each over a connection of its own. */
  readonly connections?: number;
};

answerCommands<LoopCommand, number>(async ({ port, messages, connections = PROVIDER_CONNECTIONS }) => {
  await using call = createProviderCall(port, connections);
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < messages) {
      const { to, body } = messageText(next++);
      await call(to, body);
    }
  };
  await Promise.all(Array.from({ length: connections }, run));
  return messages;
});
