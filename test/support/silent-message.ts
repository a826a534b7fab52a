import type { SilentMessage } from '#core/domain/receipts/decide-silence.ts';

/** Facts of a sent message that has no receipt and may go to another account. */
export const SILENT_MESSAGE = {
  channel: 'sms',
  tenantStatus: 'active',
  isHeld: false,
  status: 'sent',
  final: false,
  test: false,
  pinned: false,
  deliveryGuarantee: 'at_least_once',
  discard: false,
  hasContent: true,
  isByCall: true,
  isTold: false,
  isAwaited: true,
  isExpired: false,
  isBusy: false,
  isBehind: false,
  silentMs: 60_000,
  ambiguous: 0,
} as const satisfies Partial<SilentMessage>;
