import { escapeHtml } from '#core/domain/text/escape-html.ts';
import { maskRecipient } from '#core/domain/recipient/mask-recipient.ts';
import { TEXT_PAGE_HEADERS, webPage } from '../docs/html.ts';
import type { RawAnswer } from '../http/routes/raw-route.ts';

/** The form field that the page posts, and that a mail program posts by itself (RFC 8058, section 3.1). */
export const ONE_CLICK = { name: 'List-Unsubscribe', value: 'One-Click' } as const;

const HEADERS = {
  ...TEXT_PAGE_HEADERS,
  'content-security-policy': TEXT_PAGE_HEADERS['content-security-policy'].replace(
    "form-action 'none'",
    "form-action 'self'",
  ),
  // The link is personal.
  'cache-control': 'no-store',
  'x-robots-tag': 'noindex',
};

/** Asks for confirmation and changes nothing: link scanners of mail systems open this page too. */
export function askPage(address: string): RawAnswer {
  const whom = escapeHtml(maskRecipient('email', address));
  // A form without an action posts to its own URL.
  return page(
    200,
    'Unsubscribe',
    `<p>Should no more marketing mail from this sender go to ${whom}?</p>
<form method="post">
<input type="hidden" name="${ONE_CLICK.name}" value="${ONE_CLICK.value}">
<button>Unsubscribe</button>
</form>`,
  );
}

export function donePage(address: string): RawAnswer {
  const whom = escapeHtml(maskRecipient('email', address));
  return page(200, 'Unsubscribed', `<p>No more marketing mail from this sender goes to ${whom}.</p>`);
}

export function overPage(): RawAnswer {
  return page(
    404,
    'Link expired',
    '<p>This link is no longer in use. A newer mail of the sender has another one.</p>',
  );
}

function page(status: number, title: string, body: string): RawAnswer {
  return {
    status,
    contentType: 'text/html; charset=utf-8',
    headers: HEADERS,
    body: webPage({ title, body: `<h1>${title}</h1>\n${body}` }),
  };
}
