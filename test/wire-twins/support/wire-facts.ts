import type { Received } from '../../../services/providers/stand-in.ts';

/** The values of a request, each by its place, such as `body.to[0].email`. */
export type WireFacts = ReadonlyMap<string, unknown>;

/** Headers to compare in every request; an SDK's other headers describe the SDK. */
const HEADERS = ['authorization', 'content-type', 'accept'];

/** Returns the values of a request. @param origin the vendor's origin that the sender addressed. */
export function wireFacts(
  origin: string | undefined,
  request: Received,
  headers: readonly string[],
): WireFacts {
  const [path = '', query = ''] = request.path.split('?', 2);
  const named = [...HEADERS, ...headers].flatMap((name) => {
    const value = request.headers[name];
    return value === undefined ? [] : [[name, headerValue(name, value)] as const];
  });
  const facts = new Map<string, unknown>();
  const read = {
    origin,
    method: request.method,
    path,
    query: formOf(query),
    header: Object.fromEntries(named),
  };
  collect(facts, '', { ...read, body: bodyOf(request) });
  return facts;
}

function collect(facts: Map<string, unknown>, place: string, given: unknown): void {
  const value = typeof given === 'string' ? (tokenOf(given) ?? given) : given;
  const isBranch = typeof value === 'object' && value !== null && Object.keys(value).length > 0;
  if (!isBranch) return void facts.set(place, value);
  for (const [key, inner] of Object.entries(value)) {
    const step = Array.isArray(value) ? `[${key}]` : place === '' ? key : `.${key}`;
    if (inner !== undefined) collect(facts, place + step, inner);
  }
}

function headerValue(name: string, value: string): unknown {
  if (name === 'content-type')
    return value
      .toLowerCase()
      .replaceAll(' ', '')
      .replace(/boundary=.*/, 'boundary');
  const [, scheme, credential = ''] = /^(\S+) (.+)$/s.exec(value) ?? [];
  if (scheme === 'AWS4-HMAC-SHA256') return { scheme, ...awsCredential(credential) };
  const token = tokenOf(credential);
  return token === undefined ? value : { scheme, ...token };
}

/** Returns header and claims of a JSON web token; its signature differs each time. */
function tokenOf(text: string) {
  const [, head = '', claims = ''] = /^(ey[\w-]+)\.(ey[\w-]+)\.[\w-]+$/.exec(text) ?? [];
  const json = (part: string): unknown => JSON.parse(Buffer.from(part, 'base64url').toString());
  return head === '' ? undefined : { head: json(head), claims: json(claims) };
}

/** Returns the parts of a Signature Version 4: the key, region and service, and the signed headers. */
function awsCredential(text: string) {
  const parts = Object.fromEntries(text.split(/, */).map((part) => part.split(/=(.*)/s, 2)));
  const [key, day, region, service] = String(parts['Credential']).split('/');
  return { key, day, region, service, headers: parts['SignedHeaders'], signature: parts['Signature'] };
}

function bodyOf({ headers, body }: Received): unknown {
  const type = headers['content-type'] ?? '';
  if (body === '') return {};
  // Some senders omit the type.
  if (type.includes('json') || type === '') return JSON.parse(body);
  if (type.startsWith('application/x-www-form-urlencoded')) return formOf(body);
  const boundary = /boundary="?([^";]+)/.exec(type)?.[1];
  return boundary === undefined ? body : partsOf(body, boundary);
}

/** Parses a form; a field that occurs several times becomes a list. */
function formOf(text: string): Record<string, unknown> {
  const form = new URLSearchParams(text);
  return Object.fromEntries(
    [...new Set(form.keys())].map((name) => {
      const all = form.getAll(name);
      return [name, all.length === 1 ? all[0] : all];
    }),
  );
}

function partsOf(body: string, boundary: string): Record<string, unknown> {
  const parts = body.split(`--${boundary}`).slice(1, -1);
  return Object.fromEntries(
    parts.map((part) => {
      const [head = '', content = ''] = part.replace(/^\r\n|\r\n$/g, '').split(/\r\n\r\n(.*)/s, 2);
      const name = /name="([^"]*)"/.exec(head)?.[1] ?? '';
      const filename = /filename="([^"]*)"/.exec(head)?.[1];
      const type = /content-type: *(\S+)/i.exec(head)?.[1];
      return [name, filename === undefined ? content : { filename, type, content }];
    }),
  );
}
