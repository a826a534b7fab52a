import type { AnyProvider } from '#providers/provider.ts';
import { describeProvider, receiptsOf } from '#providers/registry.ts';
import { escapeHtml } from '#core/domain/text/escape-html.ts';
import { code, list, prose, table, webPage } from './html.ts';
import { settingRows } from './setting-rows.ts';
import { describeMessageFields } from './message-fields.ts';

const DEDUPE = {
  key: 'The worker sends the same key again with a repeated message, and the provider drops the copy.',
  lookup: 'After a call without an answer the worker asks the provider whether it has the message.',
  none: 'The provider does not prevent duplicates: after a call without an answer the worker calls once more, unless the message says `at_most_once`.',
} as const;

const LOOKUP = {
  id: 'yes, by the provider’s id: after an answered call, if no receipt comes.',
  reference: 'yes, by the id of the message: after a call without an answer, and if no receipt comes.',
  none: 'no',
} as const;

const MODES = {
  automatic: 'The worker gives the provider the receipt URL with each message.',
  manual: 'You must enter the receipt URL at the provider: `receiptUrl` of the provider account.',
  none: 'None.',
} as const;

const ENVIRONMENT =
  'The commands read `DESPATCH_URL`, `DESPATCH_TOKEN` (sign-in token), `DESPATCH_TENANT` (slug) and `DESPATCH_KEY` (service key) from the environment.';

/** Renders the page of one provider from its schemas and its guide. The page is self-contained. */
export function providerPage(provider: AnyProvider): string {
  const { guide, channel, id, name } = provider;
  const shown = describeProvider(provider);
  const { capabilities, receiptSetup } = shown;
  const documentation =
    guide.documentation === null
      ? ''
      : `<p><a href="${escapeHtml(guide.documentation)}" rel="noreferrer">Documentation of the vendor</a></p>`;
  return webPage({
    title: `${name} (${id})`,
    body: [
      `<nav><a href="../../docs">Documentation</a> / <a href="../providers">Providers</a></nav>`,
      `<h1>${escapeHtml(name)}</h1>`,
      table(
        ['', ''],
        [
          ['Provider', code(id)],
          ['Channel', code(channel)],
          ['Repetitions', prose(DEDUPE[capabilities.dedupe])],
          ['Receipts', prose(receiptsText(provider))],
          ['Can be asked about a message', escapeHtml(LOOKUP[capabilities.lookup])],
          ['Reported actions of recipients', capabilities.engagement.map(code).join(', ') || 'nothing'],
          ['Longest body', lengthText(capabilities.bodyCharactersMax)],
          ['Unsupported fields', capabilities.unsupportedFields.map(code).join(', ') || 'none'],
        ],
      ),
      documentation,
      '<h2 id="credentials">Credentials</h2>',
      list('ol', guide.credentials),
      '<h2 id="settings">Settings: <code>publicConfig</code></h2>',
      settingsTable(shown.publicConfigSchema, shown.secretRoute),
      '<h2 id="secrets">Secrets: <code>secretConfig</code></h2>',
      settingsTable(shown.secretConfigSchema, []),
      '<h2 id="create">Create the provider account</h2>',
      `<p>${prose(ENVIRONMENT)}</p>`,
      request(
        ['Authorization: Bearer $DESPATCH_TOKEN', 'X-Tenant-Slug: $DESPATCH_TENANT'],
        '/v1/admin/providers',
        {
          provider: id,
          label: `${name}, main account`,
          ...guide.account,
        },
      ),
      '<h2 id="receipts">Receipts</h2>',
      `<p>${prose(MODES[receiptSetup.mode])}</p>`,
      receiptSetup.steps.length === 0 ? '' : list('ol', receiptSetup.steps),
      '<h2 id="messages">Messages</h2>',
      table(
        ['Field', 'Form', 'What it is', `At ${escapeHtml(name)}`],
        describeMessageFields(channel).map(({ field, form, description }) => [
          code(field),
          prose(form),
          prose(description),
          prose(meaningOf(guide.fields[field])),
        ]),
      ),
      ...guide.messages.map((message) =>
        request(['X-Service-Key: $DESPATCH_KEY'], '/v1/messages', { channel, ...message }),
      ),
      '<h2 id="limits">Limits</h2>',
      list('ul', [
        ...guide.limits,
        'A message has one recipient. `rateLimitPerSecond` of the provider account limits the rate of calls.',
      ]),
      '<h2 id="unsupported">Not supported</h2>',
      list('ul', guide.unsupported),
    ].join('\n'),
  });
}

/** The text for a field that is supported without a remark. */
function meaningOf(meaning: string | null | undefined): string {
  if (meaning === undefined) return '';
  return meaning ?? 'Not supported.';
}

function receiptsText(provider: AnyProvider): string {
  if (provider.receipts === 'simulated') return 'made by the simulator';
  const definition = receiptsOf(provider);
  if (definition === undefined) return 'none: `sent` is the last state of a message';
  const signed =
    definition.verify === undefined
      ? 'not signed: the secret in the receipt URL authenticates them'
      : 'verified by their signature, if the account has the key for it';
  return `${definition.setup.mode}, ${signed}`;
}

function lengthText(max: number | null): string {
  return max === null ? 'no limit of the provider' : `${max} characters`;
}

function settingsTable(schema: Record<string, unknown>, route: readonly string[]): string {
  const rows = settingRows(schema);
  if (rows.length === 0) return '<p>None.</p>';
  const settings = table(
    ['Name', 'Form', 'What it is'],
    rows.map(({ name, form, description }) => [code(name), prose(form), prose(description)]),
  );
  const guarded = rows.filter(({ name }) => route.includes(name)).map(({ name }) => code(name));
  if (guarded.length === 0) return settings;
  return `${settings}\n<p>A change of ${guarded.join(', ')} needs <code>secretConfig</code> in the same call.</p>`;
}

/** Renders one call as a curl command. Single quotes in the body are escaped for the shell. */
function request(headers: readonly string[], path: string, body: object): string {
  const lines = [
    `curl -sS "$DESPATCH_URL${path}" \\`,
    ...[...headers, 'Content-Type: application/json'].map((header) => `  -H "${header}" \\`),
    `  -d '${JSON.stringify(body, null, 2).replaceAll("'", String.raw`'\''`)}'`,
  ];
  return `<pre><code>${escapeHtml(lines.join('\n'))}</code></pre>`;
}
