import { expect, test } from 'vitest';
import { canMove, MESSAGE_STATES, type MessageState } from '#core/domain/message-state.ts';
import { setupStores } from '../../support/worker.ts';

const RECEIPTS = ['sent', 'delivered', 'undelivered'] as const satisfies readonly MessageState[];

type Row = { from: MessageState; is_final: boolean; receipt: (typeof RECEIPTS)[number]; applies: boolean };

test('the database applies a receipt only where the table of moves has the move', async () => {
  await using bundle = await setupStores();
  const rows = await bundle.admin<Row[]>`
    select f.state as "from", b.is_final, r.receipt, despatch.receipt_applies(f.state, b.is_final, r.receipt) as applies
    from unnest(${MESSAGE_STATES}::text[]) f (state), unnest(array[true, false]) b (is_final),
      unnest(${[...RECEIPTS]}::text[]) r (receipt)`;
  expect(rows).toHaveLength(MESSAGE_STATES.length * 2 * RECEIPTS.length);
  // A final `undelivered` stays: the one move that the table alone cannot decide.
  const wanted = rows.map(({ from, is_final, receipt }) =>
    from === 'undelivered' && is_final ? false : from !== 'sending' && canMove(from, receipt),
  );
  expect(rows.map(({ applies }) => applies)).toEqual(wanted);
});
