import type { ReceiptResult } from '#core/domain/receipts/receipt-decisions.ts';
import { withSpan } from '#core/platform/telemetry/telemetry.ts';

/**
 * Records a span for each settled receipt: it belongs to the trace of the vendor's call and links to the trace of the message.
 * Receipts of simulators have no call and get no span; receipts that wait for their message get one later.
 */
export function traceReceipts(results: readonly ReceiptResult[]): void {
  for (const { calledIn, sentIn, provider, result } of results) {
    if (calledIn === null || result === 'waiting') continue;
    const attributes = { 'despatch.provider': provider, 'despatch.receipt_result': result };
    const links = sentIn === null ? [] : [sentIn];
    withSpan('process receipt', { kind: 'consumer', parent: calledIn, links, attributes }, () => undefined);
  }
}
