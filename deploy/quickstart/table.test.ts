import { expect, test } from 'vitest';
import { table } from './table.ts';

test('columns are as wide as their widest cell and no line ends in spaces', () => {
  const text = table(
    [
      { title: 'channel', align: 'left' },
      { title: 'ms', align: 'right' },
      { title: 'note', align: 'left' },
    ],
    [
      ['sms', '7', ''],
      ['whatsapp', '1234', 'slow'],
    ],
  );
  expect(text.split('\n')).toEqual(['channel     ms  note', 'sms          7', 'whatsapp  1234  slow']);
});
