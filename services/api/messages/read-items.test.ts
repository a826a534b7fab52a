import { expect, test } from 'vitest';
import { readItems } from './read-items.ts';

const sms = { channel: 'sms', to: '+15550000001', body: 'Hello' };

test('items are read in order, and pauses between them are awaited', async () => {
  const steps: string[] = [];
  let asked = 0;
  const sent = [sms, 7, { ...sms, to: 'nobody' }, sms].map((one, i) =>
    typeof one === 'number'
      ? one
      : {
          ...one,
          get externalId() {
            steps.push(`read ${i}`);
            return `item ${i}`;
          },
        },
  );
  const items = await readItems(sent, () => {
    asked += 1;
    if (asked % 2 === 1) return undefined;
    return Promise.resolve().then(() => void steps.push('rested'));
  });
  expect(items.map((item) => ('fault' in item ? item.fault.code : item.message.externalId))).toEqual([
    'item 0',
    'validation_failed',
    'validation_failed',
    'item 3',
  ]);
  expect(steps).toEqual(['read 0', 'rested', 'read 2', 'rested', 'read 3']);
  expect(asked).toBe(4);
});
