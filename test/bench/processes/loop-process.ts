// Calls the provider and does nothing else: the floor of a drain.
import { answerCommands } from '../measure/helper.ts';
import { createProviderCall, PROVIDER_CONNECTIONS } from './provider-call.ts';
import { messageText } from '../load/request-text.ts';

export type LoopCommand = { readonly port: number; readonly messages: number };

answerCommands<LoopCommand, number>(async ({ port, messages }) => {
  await using call = createProviderCall(port);
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < messages) {
      const { to, body } = messageText(next++);
      await call(to, body);
    }
  };
  await Promise.all(Array.from({ length: PROVIDER_CONNECTIONS }, run));
  return messages;
});
