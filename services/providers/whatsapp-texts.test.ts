import { expect, test } from 'vitest';
import type { WhatsappContent } from '#core/domain/message/content.ts';
import { whatsappTexts } from './whatsapp-texts.ts';

const template = { kind: 'template', name: 'order', language: 'en_US' } as const;

test.each<[WhatsappContent, string[]]>([
  [{ kind: 'text', body: 'Hello' }, ['Hello']],
  [{ kind: 'text', body: 'ok' }, []],
  [
    { kind: 'media', type: 'document', url: 'https://x.example/a', caption: 'Look', filename: 'bill.pdf' },
    ['https://x.example/a', 'Look', 'bill.pdf'],
  ],
  [{ kind: 'media', type: 'image', url: 'https://x.example/a' }, ['https://x.example/a']],
  [{ ...template, variables: ['Ada L.', '7'] }, ['Ada L.']],
  [{ ...template, variables: { who: 'Ada L.' } }, ['Ada L.']],
  [{ ...template, variables: [], header: { type: 'text', text: 'Greeting' } }, ['Greeting']],
  [{ ...template, variables: [], header: { type: 'video', url: 'https://v' } }, ['https://v']],
  [
    { ...template, variables: [], header: { type: 'document', url: 'https://d', filename: 'd.pdf' } },
    ['https://d', 'd.pdf'],
  ],
  [
    {
      ...template,
      variables: [],
      header: { type: 'location', latitude: 52.5163, longitude: 13.3777, name: 'Brandenburg Gate' },
    },
    ['Brandenburg Gate', '52.5163', '13.3777'],
  ],
  [
    {
      ...template,
      variables: [],
      buttons: [
        { type: 'url', text: 'order-1' },
        { type: 'quick_reply', payload: 'confirm' },
        { type: 'copy_code', code: '25OFF' },
      ],
    },
    ['order-1', 'confirm', '25OFF'],
  ],
])('the texts of %j are %j', (content, texts) => {
  expect(whatsappTexts(content)).toEqual(texts);
});
