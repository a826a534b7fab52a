import { createHash } from 'node:crypto';

const STYLE = `body { font: 16px/1.6 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c2330 }
a { color: #1d4ed8 }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #d5dae3; padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top }
td:first-child code { white-space: nowrap }
pre { background: #f3f5f8; overflow-x: auto; padding: .8rem }
code { font-size: .9em; overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) { body { background: #11151c; color: #d9dee7 } a { color: #8ab4ff } pre { background: #1b212b } th, td { border-color: #333c4a } }`;

/** Of pages that are text alone: no script, no picture, nothing from elsewhere. */
export const TEXT_PAGE_HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'referrer-policy': 'no-referrer',
};

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** For the text of an element and for the value of an attribute in quotes. */
export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

export function code(text: string): string {
  return `<code>${escaped(text)}</code>`;
}

/** Sentences whose names stand in backquotes. */
export function prose(text: string): string {
  return escaped(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}

export function list(kind: 'ol' | 'ul', sentences: readonly string[]): string {
  return `<${kind}>\n${sentences.map((one) => `<li>${prose(one)}</li>`).join('\n')}\n</${kind}>`;
}

/** @param rows cells that are HTML already. Without any heading the table has no head. */
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
<title>${escaped(title)} - Despatch</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
${body}
</html>
`;
}
