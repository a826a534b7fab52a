import { z } from 'zod';

export const ReceiptSetup = z
  .object({
    mode: z
      .enum(['automatic', 'manual', 'none'])
      .describe(
        '`automatic`: each message tells the provider where to report. `manual`: somebody enters the `receiptUrl` of the account at the provider. `none`: it reports nothing there.',
      ),
    steps: z.array(z.string()).describe('What is to be done, for people.'),
  })
  .meta({
    id: 'ReceiptSetup',
    description: 'How a provider learns where to report what became of messages.',
  });
