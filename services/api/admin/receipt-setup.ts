import { z } from 'zod';

export const ReceiptSetup = z
  .object({
    mode: z
      .enum(['automatic', 'manual', 'none'])
      .describe(
        '`automatic`: each message contains the URL to report to. `manual`: a person enters the `receiptUrl` of the account at the provider. `none`: the provider reports nothing there.',
      ),
    steps: z.array(z.string()).describe('Setup steps, for people.'),
  })
  .meta({
    id: 'ReceiptSetup',
    description: 'How a provider gets the URL to which it reports the state of messages.',
  });
