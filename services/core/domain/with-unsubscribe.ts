import type { EmailContent } from './content.ts';

/**
 * A mail with the headers by which its recipient, or their mail program, unsubscribes with one click (RFC 8058, section 3.1).
 * One that its sender has given such a header keeps that.
 */
export function withUnsubscribe(content: EmailContent, url: string): EmailContent {
  const { headers = {} } = content;
  const isOwn = Object.keys(headers).some((name) => name.toLowerCase() === 'list-unsubscribe');
  if (isOwn) return content;
  const others = Object.entries(headers).filter(([name]) => name.toLowerCase() !== 'list-unsubscribe-post');
  return {
    ...content,
    headers: {
      ...Object.fromEntries(others),
      'List-Unsubscribe': `<${url}>`,
      'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
    },
  };
}
