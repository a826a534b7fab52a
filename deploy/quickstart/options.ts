import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

export type Options = {
  /** Exit after the table of messages. */
  readonly once: boolean;
  /** Use the real Vault even if it must be downloaded or built first. */
  readonly vault: boolean;
  /** Delete the data of earlier starts. */
  readonly fresh: boolean;
  /** Use free ports instead of the default ones. */
  readonly anyPorts: boolean;
  /** Absolute path of the folder that contains all state. */
  readonly stateDir: string;
};

export type ParsedOptions =
  | { readonly kind: 'run'; readonly options: Options }
  | { readonly kind: 'help' }
  | { readonly kind: 'fault'; readonly message: string };

export const HELP = `Usage: npm run quickstart -- [options]

Starts Despatch on this machine with all it needs, sends one message per channel and an sms that goes on to a second
provider, and stays up until Ctrl-C.

  --once         end after the table of messages; the exit code is 0 if all five got as far as providers tell, one
                 of them by its second provider, and all their events were received
  --vault        use a real HashiCorp Vault even where it has to be fetched or built first (minutes at most, once)
  --fresh        forget the data of earlier starts
  --any-ports    take free ports instead of the usual ones, and keep to them at later starts
  --state DIR    keep the data in DIR instead of .despatch (or set DESPATCH_STATE_DIR)
  --help         show this
`;

/** Parses the command line; relative folders are relative to `root`. */
export function parseOptions(args: readonly string[], env: NodeJS.ProcessEnv, root: string): ParsedOptions {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        once: { type: 'boolean', default: false },
        vault: { type: 'boolean', default: false },
        fresh: { type: 'boolean', default: false },
        'any-ports': { type: 'boolean', default: false },
        state: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    if (values.help) return { kind: 'help' };
    const { once, vault, fresh, 'any-ports': anyPorts } = values;
    const stateDir = resolve(root, values.state || env['DESPATCH_STATE_DIR'] || '.despatch');
    return { kind: 'run', options: { once, vault, fresh, anyPorts, stateDir } };
  } catch (error) {
    return { kind: 'fault', message: (error as Error).message };
  }
}
