import type { EmailContent } from './content.ts';

/**
 * Returns a mail with the headers for one-click unsubscription by the recipient or the mail program (RFC 8058, section 3.1). If
 * the sender has set such a header, that one is kept.
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
