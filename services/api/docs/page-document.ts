import { OPERATION_EXAMPLES, readExamples } from './examples.ts';
import { readGuides } from './guides.ts';

type Json = Record<string, unknown>;

/** Returns the OpenAPI document as the page shows it: with the guides in its description and our own examples. */
export function pageDocument(document: Json, serverUrl: string): Json {
  const info = document['info'] as Json;
  const paths = document['paths'] as Record<string, Record<string, Json>>;
  return {
    ...document,
    // If the text begins with a heading, the renderer gives each heading an entry in the sidebar.
    info: {
      ...info,
      description: `# Introduction\n\n${String(info['description'])}\n\n${readGuides(serverUrl)}`,
    },
    paths: Object.fromEntries(
      Object.entries(paths).map(([path, operations]) => [
        path,
        Object.fromEntries(
          Object.entries(operations).map(([method, operation]) => [method, withExamples(operation)]),
        ),
      ]),
    ),
  };
}

function withExamples(operation: Json): Json {
  const name = OPERATION_EXAMPLES[String(operation['operationId'])];
  if (name === undefined) return operation;
  const samples = readExamples(name).map(({ label, language, source }) => ({
    lang: language,
    label,
    source,
  }));
  return { ...operation, 'x-codeSamples': samples };
}
