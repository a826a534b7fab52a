import { createRequire } from 'node:module';
import { join } from 'node:path';
import { installOwnPackages } from '../../support/own-packages.ts';

const FOLDER = 'test/wire-twins';

/** Fetches the vendors' packages once for each lock file. Throws an error that says what npm said. */
export async function installVendorPackages(): Promise<string> {
  return join(await installOwnPackages(FOLDER), '../..');
}

/**
 * A vendor's own package. The project does not have it among its packages, so whoever asks says which part of it is used.
 * @param name as in an import, for example `telnyx` or `postmark/dist/x.js`.
 */
export async function vendorPackage<Part>(name: string): Promise<Part> {
  const require = createRequire(join(await installVendorPackages(), 'package.json'));
  return require(name) as Part;
}
