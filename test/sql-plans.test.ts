import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from './support/command.ts';

/**
 * A generic plan is kept as long as its connection. A plan made while a table had ten rows would keep scanning the whole table,
 * possibly a hundred thousand rows a call, until autovacuum analyzes it a minute later.
 */
const GROWING =
  /\b(?:from|join|update|into|using)\s+(?:messages|live_messages|message_(?:results|contents|states)|unsettled_contents|awaited_receipts|failover_waits|lookups|lookup_turns|attempt_log|event_log|tenant_events|changes|feed_passes|usage_(?:moves|counts|times)|account_counts|feed|endpoint_feed|endpoint_heads|due_deliveries|delivery_attempts|receipts|receipt_calls|idempotency_keys|suppressions|suppressions_now|claimed_message|waiting_message)\b/;

const EXEMPT: Readonly<Record<string, string>> = {
  begin_attempts: 'called by claims, under their settings',
  within_bytes: 'called by claims, under their settings',
  take_account_tokens: 'called by claims, under their settings',
  discard_contents: 'called by those that end messages, under their settings',
  last_unanswered: 'called by lock_receipts, under its settings',
  idempotent_followers: 'called by accept, under its settings',
  store_content: 'inserts alone',
  note_changes: 'inserts alone',
  note_tenant_event: 'inserts alone',
  note_suppression_events: 'inserts alone',
};

const folder = join(projectRoot, 'services/core/store/functions');
const functions = readdirSync(folder).map((file) => ({
  name: file.replace('.sql', ''),
  text: readFileSync(join(folder, file), 'utf8').replaceAll(/--.*$/gm, ''),
}));

test('functions that read growing tables disable sequential scans', () => {
  const reading = functions.filter(({ text }) => GROWING.test(text));
  const free = reading
    .filter(({ text }) => !text.includes('set enable_seqscan = off'))
    .map(({ name }) => name);
  expect(free.toSorted()).toEqual(Object.keys(EXEMPT).toSorted());
});
