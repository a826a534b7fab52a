import { expect, test } from 'vitest';
import { publicUrlFault } from './public-url.ts';

test.each([
  'https://cdn.example.com/a.png',
  'http://x.example',
  'https://EXAMPLE.com./a?b#c',
  'https://bücher.example/a',
])('%s is accepted', (url) => expect(publicUrlFault(url)).toBeUndefined());

test.each([
  '',
  'a.png',
  '//cdn.example.com/a',
  'ftp://cdn.example.com/a',
  'data:image/png;base64,AA',
  'https://',
])('%j is not a valid URL', (url) => expect(publicUrlFault(url)).toMatchObject({ rule: 'url' }));

test.each([
  'http://localhost/a',
  'http://localhost./a',
  'http://127.0.0.1/a',
  'http://2130706433/a',
  'http://0x7f.1/a',
  'http://[::1]/a',
  'http://93.184.216.34/a',
  'http://intranet/a',
  'http://api.default.svc/a',
  'http://files.svc.cluster.local/a',
  'http://metadata.google.internal/a',
])('%s is blocked', (url) => expect(publicUrlFault(url)).toMatchObject({ rule: 'url_blocked' }));
