import { readFileSync } from 'node:fs';

const manifest = JSON.parse(readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

/** This build's version, as logs, metrics and the OpenAPI document show it. */
export const VERSION = manifest.version;
