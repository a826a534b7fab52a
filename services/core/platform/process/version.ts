import { readFileSync } from 'node:fs';

const manifest = JSON.parse(readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

/** This build's version, as shown in logs, metrics and the OpenAPI document. */
export const VERSION = manifest.version;
