import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { behaviourOfAddress } from '#providers/behaviour.ts';
import { startSmtpStandIn } from '#providers/smtp/stand-in.ts';
import { html, PAGE_HEADERS, renderPage, type Html } from './html.ts';
import { attachmentHeaders, readAttachment, readMail, type Mail, type MailAttachment } from './mail.ts';
import type { Arrival } from './received.ts';

export type Inbox = AsyncDisposable & {
  readonly url: string;
  readonly smtpPort: number;
  /** Returns the mails that arrived, oldest first. */
  readonly arrivals: () => readonly Arrival[];
};

const MAILS_MAX = 1_000;
/** Total raw length of all kept mails. */
const CHARACTERS_MAX = 256 * 1024 * 1024;
/**
 * Headers of the page that shows a mail, in a frame: it runs nothing, loads nothing and cannot reach the surrounding page.
 */
const MAIL_HEADERS: Readonly<Record<string, string>> = {
  ...PAGE_HEADERS,
  'content-security-policy': "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'",
};

/** Starts a mail server that accepts every mail, and a web page that shows them. */
export async function startInbox(ports: { readonly smtp: number; readonly web: number }): Promise<Inbox> {
  await using stack = new AsyncDisposableStack();
  const mails: Mail[] = [];
  let [count, characters] = [0, 0];

  const smtp = stack.use(
    await startSmtpStandIn({
      port: ports.smtp,
      isUnknown: (address) => behaviourOfAddress(address) === 'invalid',
      // The inbox keeps the mails itself.
      keep: 0,
      onMail(received) {
        const id = ++count;
        void readMail(id, received).then((mail) => {
          mails.push(mail);
          characters += mail.raw.length;
          while (mails.length > MAILS_MAX || (characters > CHARACTERS_MAX && mails.length > 1)) {
            characters -= mails.shift()?.raw.length ?? 0;
          }
        });
      },
    }),
  );
  const server = createServer((request, response) => {
    answer(mails, request, response).catch(() => response.destroy());
  });
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

async function answer(
  mails: readonly Mail[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const send = (status: number, headers: Readonly<Record<string, string>>, body: string | Buffer): void => {
    response.writeHead(status, headers).end(request.method === 'HEAD' ? undefined : body);
  };
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
  if (path === '/') return send(200, PAGE_HEADERS, listPage(mails));
  if (path === '/received') {
    return send(200, { 'content-type': 'application/json; charset=utf-8' }, JSON.stringify(mails));
  }
  const [, id, part, index] = /^\/mails\/(\d+)(\/html|\/source|\/attachments\/(\d{1,4}))?$/.exec(path) ?? [];
  const mail = mails.find((one) => one.id === Number(id));
  if (mail === undefined) return send(404, PAGE_HEADERS, notFoundPage());
  if (part === '/html') return send(200, MAIL_HEADERS, mail.html ?? '');
  if (part === '/source') {
    return send(200, { ...PAGE_HEADERS, 'content-type': 'text/plain; charset=utf-8' }, mail.raw);
  }
  if (index === undefined) return send(200, PAGE_HEADERS, mailPage(mail));
  const attachment = mail.attachments[Number(index)];
  const content = await readAttachment(mail, Number(index));
  if (attachment === undefined || content === undefined) return send(404, PAGE_HEADERS, notFoundPage());
  return send(200, { ...MAIL_HEADERS, ...attachmentHeaders(attachment) }, content);
}

function notFoundPage(): string {
  const content = html`<h1>Not found</h1>
    <p><a href="/">All mails</a></p>`;
  return renderPage({ title: 'Not found', content });
}

function listPage(mails: readonly Mail[]): string {
  const rows = mails.toReversed().map(
    ({ id, at, from, to, subject, attachments }) =>
      html`<tr>
        <td class="quiet">${at}</td>
        <td>${from}</td>
        <td>${to}</td>
        <td><a href="/mails/${id}">${subject || '(no subject)'}</a>${countOf(attachments)}</td>
      </tr>`,
  );
  const list =
    rows.length === 0
      ? html`<p>No mail yet.</p>`
      : html`<table class="list">
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
  const attachments = mail.attachments.map(
    ({ filename, mimeType, bytes }, index) =>
      html`<tr>
        <th>Attachment</th>
        <td>
          <a href="/mails/${mail.id}/attachments/${index}">${filename ?? '(no name)'}</a>
          <span class="quiet">${mimeType}, ${sizeOf(bytes)}</span>
        </td>
      </tr>`,
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

function countOf({ length }: readonly MailAttachment[]): Html {
  if (length === 0) return html``;
  return html` <span class="quiet">(${length} ${length === 1 ? 'attachment' : 'attachments'})</span>`;
}

function sizeOf(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
