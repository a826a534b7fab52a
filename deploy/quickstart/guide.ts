import { runProgram } from '../servers/run-program.ts';
import type { Connection } from './connection.ts';

/** The command that formats answers: `jq`, or Node, which is always installed. */
export const FORMATTERS = {
  jq: 'jq .',
  node: `node -p 'JSON.stringify(JSON.parse(fs.readFileSync(0)), null, 2)'`,
} as const;
export type Formatter = keyof typeof FORMATTERS;

export async function chooseFormatter(): Promise<Formatter> {
  return runProgram('jq', ['--version']).then(
    () => 'jq',
    () => 'node',
  );
}

export type GuideInput = {
  readonly connection: Connection;
  readonly connectionFile: string;
  readonly logFolder: string;
  readonly formatter: Formatter;
  /** Id of the message that failed over because its first provider was down. */
  readonly failedOver: string;
};

/** Returns what to do with the running service, for a first-time user. */
export function guide({ connection, connectionFile, logFolder, formatter, failedOver }: GuideInput): string {
  const { baseUrl, metricsUrls, inboxUrl, providerUrls, webhookReceiverUrl, tenantSlug, otherTenant } =
    connection;
  return [
    'Despatch is running. Ctrl-C stops it; its data stays.',
    '',
    ...aligned([
      ['API', baseUrl],
      ['Documentation', `${baseUrl}/docs`],
      ['OpenAPI', `${baseUrl}/v1/openapi.json`],
      ['Inbox (email)', `${inboxUrl}  (mails of all providers)`],
      ['Twilio (sms)', `${providerUrls.twilio}  (stand-in: shows what it received)`],
      ['Plivo (sms)', `${providerUrls.plivo}  (stand-in: next in the route)`],
      ['FCM (push)', `${providerUrls.fcm}  (stand-in)`],
      ['WhatsApp', `${providerUrls['whatsapp-cloud']}  (stand-in)`],
      ['All providers', `${new URL(providerUrls.twilio).origin}  (a stand-in for each of the catalog)`],
      ['Events', `${webhookReceiverUrl}  (what endpoints were sent, and whether the signatures hold)`],
      ['Metrics', `${metricsUrls.api}  ${metricsUrls.worker}`],
      ['Logs', logFolder],
      ['Tenants', `${tenantSlug}, ${otherTenant.slug}`],
      ['All of this', `${connectionFile}, for programs`],
    ]),
    '',
    `Credentials of ${tenantSlug}. Paste them into a shell:`,
    '',
    ...credentialLines(connection).map((line) => `  ${line}`),
    '',
    'Then try:',
    '',
    ...curlLines(connection, formatter, failedOver).flatMap(({ title, command }) => [
      `  # ${title}`,
      `  ${command}`,
    ]),
    '',
  ].join('\n');
}

/** Shell variables that the curl commands use. */
export function credentialLines(connection: Connection): string[] {
  return [
    `KEY='${connection.serviceKey}'`,
    `TEST_KEY='${connection.testKey}'`,
    `OWNER='${connection.adminToken}'`,
    `VIEWER='${connection.viewerToken}'`,
    `PLATFORM='${connection.platformToken}'`,
  ];
}

export type CurlLine = { readonly title: string; readonly command: string };

export function curlLines(
  { baseUrl, tenantSlug, webhookReceiverUrl, providerUrls }: Connection,
  formatter: Formatter,
  failedOver: string,
): CurlLine[] {
  const curl = (rest: string): string => `curl -sS ${rest} | ${FORMATTERS[formatter]}`;
  const send = (body: object, key = 'KEY'): string =>
    curl(
      `${baseUrl}/v1/messages -H "X-Service-Key: $${key}" -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`,
    );
  const asOwner = `-H "Authorization: Bearer $OWNER" -H 'X-Tenant-Slug: ${tenantSlug}'`;
  return [
    { title: 'send an sms', command: send({ channel: 'sms', to: '+14155550101', body: 'Hello' }) },
    {
      title: 'send an email, and see it in the inbox',
      command: send({
        channel: 'email',
        to: 'you@example.com',
        from: 'hello@acme.example',
        subject: 'Hi',
        bodyText: 'Hello',
      }),
    },
    {
      title: 'an sms in test mode: no provider is called, and this number is one that does not exist',
      command: send({ channel: 'sms', to: '+15550000002', body: 'Hello' }, 'TEST_KEY'),
    },
    {
      title: 'the newest messages and their status',
      command: curl(`'${baseUrl}/v1/messages?limit=5' -H "X-Service-Key: $KEY"`),
    },
    {
      title: 'how the sms found its way whose first provider was down: see "route"',
      command: curl(`${baseUrl}/v1/admin/messages/${failedOver} ${asOwner}`),
    },
    {
      title: 'Twilio refuses its next message, so this one goes on to Plivo: look at it as above, by its id',
      command: `curl -sS -X POST '${providerUrls.twilio}/outage?messages=1' && ${send({ channel: 'sms', to: '+14155550102', body: 'Hello by the second' })}`,
    },
    { title: "the tenant's providers", command: curl(`${baseUrl}/v1/admin/providers ${asOwner}`) },
    {
      title: 'what has happened, from the first event on',
      command: curl(`'${baseUrl}/v1/admin/events?limit=5' ${asOwner}`),
    },
    {
      title: 'where its events go, and how that went',
      command: curl(`${baseUrl}/v1/admin/webhook-endpoints ${asOwner}`),
    },
    {
      title: 'an event that nobody has signed: the receiver refuses it',
      command: curl(`${webhookReceiverUrl}/${tenantSlug} -d '{"type":"message.delivered","data":{"seq":1}}'`),
    },
    {
      title: 'who you are, as a viewer',
      command: curl(`${baseUrl}/v1/admin/me -H "Authorization: Bearer $VIEWER"`),
    },
    {
      title: 'all tenants, as the platform admin',
      command: curl(`${baseUrl}/v1/admin/tenants -H "Authorization: Bearer $PLATFORM"`),
    },
  ];
}

function aligned(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`);
}
