import { readFileSync } from 'node:fs';

export type Example = {
  /** Display name of the language. */
  readonly label: string;
  /** The language's name in the page's highlighter. */
  readonly language: string;
  readonly source: string;
};

/** The languages of every example; the first one is shown by default. */
export const EXAMPLE_LANGUAGES = [
  { extension: 'sh', label: 'curl', language: 'bash' },
  { extension: 'mjs', label: 'JavaScript', language: 'javascript' },
  { extension: 'py', label: 'Python', language: 'python' },
  { extension: 'go', label: 'Go', language: 'go' },
] as const;

/** Operations whose page shows an example from `examples/`, by operation id. */
export const OPERATION_EXAMPLES: Readonly<Record<string, string>> = {
  sendMessage: 'send-message',
  getMessage: 'get-message',
  listMessages: 'list-messages',
  createProvider: 'create-provider',
};

/** Reads `examples/<name>` in each of {@link EXAMPLE_LANGUAGES}. */
export function readExamples(name: string): Example[] {
  return EXAMPLE_LANGUAGES.map(({ extension, label, language }) => ({
    label,
    language,
    source: readFileSync(new URL(`examples/${name}.${extension}`, import.meta.url), 'utf8'),
  }));
}
