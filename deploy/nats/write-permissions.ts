// Writes the services' permissions for any NATS_PREFIX to standard output: as a file to include in a nats-server's
// configuration, or as values of the official NATS chart.
import { parseArgs } from 'node:util';
import { stringify } from 'yaml';
import { natsAccounts, natsPermissions, NATS_SERVICES } from './accounts.ts';

const HELP = `node deploy/run.mjs deploy/nats/write-permissions.ts [--prefix NAME] [--format conf|values] [--secret NAME]

  --prefix NAME     NATS_PREFIX of the release, nats.jetstream.streamPrefix in the chart (despatch)
  --format FORMAT   conf: to include in a nats-server's configuration; values: for the official NATS chart (conf)
  --secret NAME     with values: Secret with the keys api-password, worker-password, controller-password (despatch-nats)
`;

/** Returns the accounts as NATS configuration, which is JSON except for unquoted variables. */
export function permissionsConf(prefix: string): string {
  const marked = JSON.stringify({ accounts: natsAccounts(prefix, (variable) => `<<${variable}>>`) }, null, 2);
  return `${marked.replace(/"<<(\w+)>>"/g, '$$$1').slice(2, -2)}\n`;
}

/** Returns values of the official chart: the accounts, and the passwords as variables from a Secret. */
export function permissionsValues(prefix: string, secretName: string): object {
  const permissions = natsPermissions(prefix);
  return {
    // The chart writes text between these marks without quotes, so that the server resolves the variable.
    config: { merge: { accounts: natsAccounts(prefix, (variable) => `<< $${variable} >>`) } },
    container: {
      env: Object.fromEntries(
        NATS_SERVICES.map((service) => [
          permissions[service].passwordVariable,
          { valueFrom: { secretKeyRef: { name: secretName, key: `${service}-password` } } },
        ]),
      ),
    },
  };
}

function main(): void {
  const { values } = parseArgs({
    options: {
      prefix: { type: 'string', default: 'despatch' },
      format: { type: 'string', default: 'conf' },
      secret: { type: 'string', default: 'despatch-nats' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return void process.stdout.write(HELP);
  if (!/^[a-z][a-z0-9_-]{0,31}$/.test(values.prefix))
    throw new Error('--prefix is not one that NATS_PREFIX may be');
  if (values.format === 'conf') process.stdout.write(permissionsConf(values.prefix));
  else if (values.format === 'values')
    process.stdout.write(stringify(permissionsValues(values.prefix, values.secret)));
  else throw new Error('--format is conf or values');
}

if (import.meta.main) main();
