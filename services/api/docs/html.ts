import { createHash } from 'node:crypto';
import { escapeHtml } from '#core/domain/text/escape-html.ts';

const STYLE = `body { font: 16px/1.6 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c2330 }
a { color: #1d4ed8 }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #d5dae3; padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top }
td:first-child code { white-space: nowrap }
pre { background: #f3f5f8; overflow-x: auto; padding: .8rem }
code { font-size: .9em; overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) { body { background: #11151c; color: #d9dee7 } a { color: #8ab4ff } pre { background: #1b212b } th, td { border-color: #333c4a } }`;

/** Returns headers for a text-only page with this style: no script, no image, nothing from another origin. */
export function textPageHeaders(style: string) {
  return {
    'content-security-policy': [
      "default-src 'none'",
      `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ].join('; '),
    'referrer-policy': 'no-referrer',
  };
}

/** Headers of a `webPage`. */
export const TEXT_PAGE_HEADERS = textPageHeaders(STYLE);

export function code(text: string): string {
  return `<code>${escapeHtml(text)}</code>`;
}

/** Renders sentences whose names are in backquotes. */
export function prose(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}

export function list(kind: 'ol' | 'ul', sentences: readonly string[]): string {
  return `<${kind}>\n${sentences.map((one) => `<li>${prose(one)}</li>`).join('\n')}\n</${kind}>`;
}

/** @param rows cells that are already HTML. If all headings are empty, the table has no head. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const head = headings.some((one) => one !== '')
    ? `<tr>${headings.map((one) => `<th>${one}</th>`).join('')}</tr>\n`
    : '';
  const body = rows.map((cells) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`).join('\n');
  return `<table>\n${head}${body}\n</table>`;
}

/** @param page.body HTML. */
export function webPage({ title, body }: { readonly title: string; readonly body: string }): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} - Despatch</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
${body}
</html>
`;
}
