import type { Connection } from './connection.ts';

export type GuideInput = {
  readonly connection: Connection;
  readonly connectionFile: string;
  readonly logFolder: string;
};

/** What to do with the running service, for a person who sees it for the first time. */
export function guide({ connection, connectionFile, logFolder }: GuideInput): string {
  const { baseUrl, metricsUrls, inboxUrl, providerUrls, tenantSlug, otherTenant } = connection;
  return [
    'Despatch is running. Ctrl-C stops it; its data stays.',
    '',
    ...aligned([
      ['API', baseUrl],
      ['Documentation', `${baseUrl}/docs`],
      ['OpenAPI', `${baseUrl}/v1/openapi.json`],
      ['Inbox (email)', inboxUrl],
      ['Twilio (sms)', `${providerUrls.twilio}  (stand-in: shows what it received)`],
      ['FCM (push)', `${providerUrls.fcm}  (stand-in)`],
      ['WhatsApp', `${providerUrls['whatsapp-cloud']}  (stand-in)`],
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
    ...curlLines(connection).flatMap(({ title, command }) => [`  # ${title}`, `  ${command}`]),
    '',
  ].join('\n');
}

/** Shell variables that the curl lines use. */
export function credentialLines(connection: Connection): string[] {
  return [
    `KEY='${connection.serviceKey}'`,
    `OWNER='${connection.adminToken}'`,
    `VIEWER='${connection.viewerToken}'`,
    `PLATFORM='${connection.platformToken}'`,
  ];
}

export type CurlLine = { readonly title: string; readonly command: string };

export function curlLines({ baseUrl, tenantSlug }: Connection): CurlLine[] {
  const send = (body: object): string =>
    `curl -sS ${baseUrl}/v1/messages -H "X-Service-Key: $KEY" -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`;
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
      title: 'the newest messages and their status',
      command: `curl -sS '${baseUrl}/v1/messages?limit=5' -H "X-Service-Key: $KEY"`,
    },
    { title: "the tenant's providers", command: `curl -sS ${baseUrl}/v1/admin/providers ${asOwner}` },
    {
      title: 'who you are, as a viewer',
      command: `curl -sS ${baseUrl}/v1/admin/me -H "Authorization: Bearer $VIEWER"`,
    },
    {
      title: 'all tenants, as the platform admin',
      command: `curl -sS ${baseUrl}/v1/admin/tenants -H "Authorization: Bearer $PLATFORM"`,
    },
  ];
}

function aligned(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`);
}
