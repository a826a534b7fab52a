import { expect, test } from 'vitest';
import { slowGrowth } from '#test/support/slow-growth.ts';
import { composeMail } from './mail.ts';

const message = { channel: 'email', id: 'm', to: 'a@b.example', expiresAt: 0, attempt: 1 } as const;

test('an attached mail takes about as long to compose with the longest lines that it may have as with short ones', async () => {
  const compose = (lineLength: number) => () => {
    const text = `${'a'.repeat(lineLength)}\n`.repeat(400_000 / (lineLength + 1));
    const attachments = [{ filename: 'a.eml', contentType: 'message/rfc822', content: btoa(text) }];
    const content = { from: { address: 'a@b.example' }, subject: 'a', text: 'a', attachments };
    return composeMail({ ...message, content }, { host: 'mail.example', port: 587, oauthTenant: 'common' });
  };
  expect(await slowGrowth(compose(70), compose(998), 5)).toBeUndefined();
});
