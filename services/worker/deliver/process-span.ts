import { natsAttributes, type SpanOptions } from '#core/platform/telemetry/telemetry.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';

/**
 * Returns the span of an attempt. The first attempt belongs to the request's trace; later ones are root spans that link to it.
 */
export function processSpan(message: ClaimedMessage): SpanOptions {
  const { traceparent } = message;
  return {
    kind: 'consumer',
    attributes: {
      ...natsAttributes('process', 'wake'),
      'despatch.channel': message.channel,
      'despatch.message_id': message.id,
      'despatch.attempt': message.attempt,
    },
    ...(traceparent === null
      ? {}
      : message.attempt === 1
        ? { parent: traceparent }
        : { root: true, links: [traceparent] }),
  };
}
