import { z } from 'zod';
import type { Channel } from '#core/domain/message/channel.ts';
import { defineProvider } from '../provider.ts';
import { behaviourOfAddress, behaviourOfNumber, behaviourOfWord, type Behaviour } from '../behaviour.ts';
import { simulatedOutcome } from './outcomes.ts';
import type { ProviderGuide } from '../guide.ts';
import { simulatorGuides } from './guide.ts';

/** One simulator per channel: no network, no credential; the recipient selects the outcome. */
export default [
  simulator('sms', 'SMS simulator', simulatorGuides.sms, behaviourOfNumber),
  simulator('email', 'Email simulator', simulatorGuides.email, behaviourOfAddress),
  simulator('push', 'Push simulator', simulatorGuides.push, behaviourOfWord),
  simulator('whatsapp', 'WhatsApp simulator', simulatorGuides.whatsapp, behaviourOfNumber),
];

function simulator<C extends Channel>(
  channel: C,
  name: string,
  guide: ProviderGuide<C>,
  behaviourOf: (to: string) => Behaviour,
) {
  return defineProvider({
    id: `simulator-${channel}`,
    channel,
    name,
    dedupe: 'none',
    receipts: 'simulated',
    bodyCharactersMax: null,
    guide,
    config: z.object({}).meta({ description: 'A simulator has no settings.' }),
    secrets: z.object({}).meta({ description: 'A simulator needs no secret.' }),
    secretRoute: {},
    send: async (message) => simulatedOutcome(behaviourOf(message.to), message.id, message.attempt),
    verify: async () => ({ kind: 'valid' }),
  });
}
