import { readFileSync } from 'node:fs';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { FEED_EVENTS } from '#core/domain/webhooks/feed-event.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { pagePath } from '#providers/registry.ts';
import { readExamples } from './examples.ts';

/** In sidebar order; each one is `guides/<name>.md` and begins with its title. */
export const GUIDES = [
  'first-message',
  'idempotency',
  'batches',
  'scheduling',
  'retries-and-states',
  'suppressions',
  'events',
  'webhooks',
  'errors',
  'limits',
  'usage',
  'test-mode',
  'providers',
  'own-gateway',
] as const;

/**
 * Returns the guides as one Markdown text with the examples inserted.
 * @param serverUrl The server that the reader's requests are sent to.
 */
export function readGuides(serverUrl: string): string {
  return GUIDES.map((name) => readFileSync(new URL(`guides/${name}.md`, import.meta.url), 'utf8'))
    .join('\n')
    .replaceAll('{{server}}', serverUrl)
    .replaceAll('{{providers}}', providerLinks(serverUrl))
    .replaceAll('{{events}}', eventRows())
    .replace(/\{\{example ([a-z-]+)\}\}/g, (_, name: string) => asMarkdown(name));
}

/** Returns one row per channel, with links to the pages of its providers. */
function providerLinks(serverUrl: string): string {
  const rows = CHANNELS.map((channel) => {
    const links = [...PROVIDERS.values()]
      .filter((provider) => provider.channel === channel)
      .map(({ id }) => `[${id}](${serverUrl}${pagePath(id)})`);
    return `| ${channel} | ${links.join(', ')} |`;
  });
  return ['| channel | providers |', '|---|---|', ...rows].join('\n');
}

function eventRows(): string {
  return Object.entries(FEED_EVENTS)
    .map(([type, when]) => `| \`${type}\` | ${when} |`)
    .join('\n');
}

/** The first language is expanded, the others are collapsed. */
function asMarkdown(name: string): string {
  return readExamples(name)
    .map(({ label, language, source }, i) => {
      const block = `\`\`\`${language}\n${source}\`\`\``;
      return i === 0 ? block : `<details><summary>${label}</summary>\n\n${block}\n\n</details>`;
    })
    .join('\n\n');
}
