import manifest from '../../../package.json' with { type: 'json' };

/** This build's version, as logs, metrics and the OpenAPI document show it. */
export const VERSION = manifest.version;
