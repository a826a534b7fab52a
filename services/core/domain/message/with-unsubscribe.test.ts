import { expect, test } from 'vitest';
import type { EmailContent } from './content.ts';
import { withUnsubscribe } from './with-unsubscribe.ts';

const mail: EmailContent = { from: { address: 'shop@example.com' }, subject: 'Sale', text: 'Now' };
const URL = 'https://api.example.com/v1/unsubscribe/token';
const ONE_CLICK = {
  'List-Unsubscribe': `<${URL}>`,
  'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
};

test('a mail gets both List-Unsubscribe headers in addition to its own', () => {
  expect(withUnsubscribe(mail, URL)).toEqual({ ...mail, headers: ONE_CLICK });
  const headers = { 'X-Campaign': 'sale', 'list-unsubscribe-post': 'List-Unsubscribe=One-Click' };
  expect(withUnsubscribe({ ...mail, headers }, URL).headers).toEqual({ 'X-Campaign': 'sale', ...ONE_CLICK });
});

test('a mail with its own List-Unsubscribe header is not changed', () => {
  const own = { ...mail, headers: { 'list-unsubscribe': '<mailto:leave@example.com>' } };
  expect(withUnsubscribe(own, URL)).toBe(own);
});
