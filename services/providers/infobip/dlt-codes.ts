import { codes, permanent, type CodeTable } from '../classify-error.ts';

/**
 * Error ids of India's register (DLT) of businesses ("entities"), their senders ("headers"), telemarketers and templates,
 * https://www.infobip.com/docs/developer-resources/api-fundamentals/error-code-reference.
 */
export const DLT_CODES: CodeTable = {
  ...codes(permanent('provider_unavailable', 'provider_error'), 4107, 4141),
  ...codes(permanent('sender_rejected', 'sender_unregistered'), 4112, 4113, 4114, 4116, 4117, 4118, 4119),
  ...codes(permanent('sender_rejected', 'sender_unregistered'), 4121, 4122, 4124, 4125, 4130, 4142),
  ...codes(permanent('sender_rejected', 'sender_unregistered'), 4154, 4155, 4156),
  ...codes(permanent('sender_rejected', 'sender_blocked'), 4106, 4108, 4109, 4110, 4115, 4120, 4123),
  ...codes(permanent('sender_rejected', 'sender_blocked'), 4146, 4147, 4148, 4157, 4158),
  ...codes(permanent('content_rejected', 'template_unavailable'), 4111, 4127, 4128, 4149, 4150, 4151),
  ...codes(permanent('content_rejected', 'invalid_template'), 4126, 4129, 4131, 4132, 4133, 4134, 4135),
  ...codes(permanent('content_rejected', 'invalid_template'), 4136, 4143),
  // A link that is not registered.
  ...codes(permanent('content_rejected', 'blocked'), 4153),
  // Promotional messages may be sent by day only.
  ...codes(permanent('content_rejected', 'rejected_by_policy'), 4138),
  // The preferences that the recipient has registered for businesses of this kind, which are no opt-out from this one.
  ...codes(permanent('recipient_unavailable', 'recipient_blocked'), 4137, 4139, 4140),
};
