import type { ReceiptResult } from '#core/domain/decide-receipts.ts';
import { withSpan } from '#core/platform/telemetry/telemetry.ts';

/**
 * Leaves a span for each receipt that was settled: it belongs to the trace of the vendor's call, and points to that of the
 * message. Simulators call nobody, and those that wait for their message have one later.
 */
export function traceReceipts(results: readonly ReceiptResult[]): void {
  for (const { calledIn, sentIn, provider, result } of results) {
    if (calledIn === null || result === 'waiting') continue;
    const attributes = { 'despatch.provider': provider, 'despatch.receipt_result': result };
    const links = sentIn === null ? [] : [sentIn];
    withSpan('process receipt', { kind: 'consumer', parent: calledIn, links, attributes }, () => undefined);
  }
}
