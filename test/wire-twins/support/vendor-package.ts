import { createRequire } from 'node:module';
import { join } from 'node:path';
import { installOwnPackages } from '../../support/own-packages.ts';

const FOLDER = 'test/wire-twins';

/** Installs the vendors' packages once for each lock file. @throws with npm's output. */
export async function installVendorPackages(): Promise<string> {
  return join(await installOwnPackages(FOLDER), '../..');
}

/**
 * Imports a vendor's own package. The project does not depend on it, so the caller declares the type of the part that it uses.
 * @param name as in an import, for example `telnyx` or `postmark/dist/x.js`.
 */
export async function vendorPackage<Part>(name: string): Promise<Part> {
  const require = createRequire(join(await installVendorPackages(), 'package.json'));
  return require(name) as Part;
}
