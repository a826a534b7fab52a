import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import PostalMime, { type Address } from 'postal-mime';
import { startSmtpStandIn, type ReceivedMail } from '#providers/smtp/stand-in.ts';
import { html, PAGE_HEADERS, renderPage, type Html } from './html.ts';
import type { Arrival } from './received.ts';

export type Mail = {
  /** Counts from 1. */
  readonly id: number;
  readonly at: string;
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string | null;
  readonly html: string | null;
  readonly attachments: readonly { readonly filename: string | null; readonly mimeType: string }[];
  readonly envelope: ReceivedMail['envelope'];
  /** Header and body as they came. */
  readonly raw: string;
};

export type Inbox = AsyncDisposable & {
  readonly url: string;
  readonly smtpPort: number;
  /** The mails that arrived, oldest first. */
  readonly arrivals: () => readonly Arrival[];
};

const MAILS_MAX = 1_000;
/** The mail's own page, in a frame: it runs nothing, loads nothing and reaches nothing around it. */
const MAIL_HEADERS: Readonly<Record<string, string>> = {
  ...PAGE_HEADERS,
  'content-security-policy': "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'",
};

/** A mail server that takes every mail, and a web page that shows them. */
export async function startInbox(ports: { readonly smtp: number; readonly web: number }): Promise<Inbox> {
  await using stack = new AsyncDisposableStack();
  const mails: Mail[] = [];
  let count = 0;

  const smtp = stack.use(
    await startSmtpStandIn({
      port: ports.smtp,
      onMail(received) {
        const id = ++count;
        void readMail(id, received).then((mail) => {
          mails.push(mail);
          if (mails.length > MAILS_MAX) mails.shift();
        });
      },
    }),
  );
  const server = createServer((request, response) => answer(mails, request, response));
  server.listen(ports.web, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(async () => {
    server.close();
    server.closeAllConnections();
  });

  const resources = stack.move();
  return {
    url: `http://127.0.0.1:${ports.web}`,
    smtpPort: smtp.port,
    arrivals: () =>
      mails.map(({ at, to, from, subject, text }) => ({
        at: Date.parse(at),
        to,
        from,
        text: `${subject}\n${text ?? ''}`,
      })),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Never rejects: a mail that cannot be parsed is shown by its envelope. */
export async function readMail(id: number, { raw, envelope, at }: ReceivedMail): Promise<Mail> {
  const parsed = await PostalMime.parse(raw).catch(() => undefined);
  return {
    id,
    at: new Date(at).toISOString(),
    from: addressesOf(parsed?.from === undefined ? [] : [parsed.from]) || envelope.from,
    to: addressesOf(parsed?.to ?? []) || envelope.to.join(', '),
    subject: parsed?.subject ?? '',
    text: parsed?.text ?? null,
    html: parsed?.html ?? null,
    attachments: (parsed?.attachments ?? []).map(({ filename, mimeType }) => ({ filename, mimeType })),
    envelope,
    raw,
  };
}

function addressesOf(addresses: readonly Address[]): string {
  return addresses
    .map(({ name, address }) => (name === '' ? (address ?? '') : `${name} <${address ?? ''}>`))
    .join(', ');
}

function answer(mails: readonly Mail[], request: IncomingMessage, response: ServerResponse): void {
  const send = (status: number, headers: Readonly<Record<string, string>>, body: string): void => {
    response.writeHead(status, headers).end(request.method === 'HEAD' ? undefined : body);
  };
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
  if (path === '/') return send(200, PAGE_HEADERS, listPage(mails));
  if (path === '/received') {
    return send(200, { 'content-type': 'application/json; charset=utf-8' }, JSON.stringify(mails));
  }
  const [, id, part] = /^\/mails\/(\d+)(\/html|\/source)?$/.exec(path) ?? [];
  const mail = mails.find((one) => one.id === Number(id));
  if (mail === undefined) {
    const content = html`<h1>Not found</h1>
      <p><a href="/">All mails</a></p>`;
    return send(404, PAGE_HEADERS, renderPage({ title: 'Not found', content }));
  }
  if (part === '/html') return send(200, MAIL_HEADERS, mail.html ?? '');
  if (part === '/source') {
    return send(200, { ...PAGE_HEADERS, 'content-type': 'text/plain; charset=utf-8' }, mail.raw);
  }
  return send(200, PAGE_HEADERS, mailPage(mail));
}

function listPage(mails: readonly Mail[]): string {
  const rows = mails.toReversed().map(
    ({ id, at, from, to, subject }) =>
      html`<tr>
        <td class="quiet">${at}</td>
        <td>${from}</td>
        <td>${to}</td>
        <td><a href="/mails/${id}">${subject || '(no subject)'}</a></td>
      </tr>`,
  );
  const list =
    rows.length === 0
      ? html`<p>No mail yet.</p>`
      : html`<table>
          <tr>
            <th>Received</th>
            <th>From</th>
            <th>To</th>
            <th>Subject</th>
          </tr>
          ${rows}
        </table>`;
  const content = html`<h1>Inbox</h1>
    <p class="quiet">
      Every mail that the local mail server took. As JSON: <a href="/received">/received</a>
    </p>
    ${list}`;
  return renderPage({ title: 'Inbox', content, refreshSeconds: 5 });
}

function mailPage(mail: Mail): string {
  const row = (name: string, value: string): Html =>
    html`<tr>
      <th>${name}</th>
      <td>${value}</td>
    </tr>`;
  const attachments = mail.attachments.map(({ filename, mimeType }) =>
    row('Attachment', `${filename ?? '(no name)'} (${mimeType})`),
  );
  const content = html`<p><a href="/">All mails</a></p>
    <h1>${mail.subject || '(no subject)'}</h1>
    <table>
      ${row('From', mail.from)}${row('To', mail.to)}${row('Received', mail.at)}${attachments}
    </table>
    ${
      mail.html === null
        ? html``
        : html`<h2>HTML</h2>
            <iframe sandbox="" src="/mails/${mail.id}/html" title="HTML part"></iframe>`
    }
    ${
      mail.text === null
        ? html``
        : html`<h2>Text</h2>
            <pre>${mail.text}</pre>`
    }
    <p><a href="/mails/${mail.id}/source">Source</a></p>`;
  return renderPage({ title: mail.subject || 'Mail', content });
}
