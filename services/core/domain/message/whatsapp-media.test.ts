import { expect, test } from 'vitest';
import { canHaveCaption, mediaTypeOf, WHATSAPP_MEDIA_TYPES } from './whatsapp-media.ts';

test.each([
  ['https://x.example/a.JPG?size=2', 'image'],
  ['https://x.example/a.png', 'image'],
  ['https://x.example/a.mp4', 'video'],
  ['https://x.example/a.ogg', 'audio'],
  ['https://x.example/a.webp', 'sticker'],
  ['https://x.example/a.pdf', 'document'],
  ['https://x.example/a', 'document'],
  ['not a link', 'document'],
])('the media at %s is of type %s', (url, type) => {
  expect(mediaTypeOf({ url })).toBe(type);
});

test('the type in the message takes precedence over the file extension', () => {
  expect(mediaTypeOf({ url: 'https://x.example/a.pdf', type: 'image' })).toBe('image');
});

test('only audio and stickers cannot have a caption', () => {
  expect(WHATSAPP_MEDIA_TYPES.filter((type) => !canHaveCaption(type))).toEqual(['audio', 'sticker']);
});
