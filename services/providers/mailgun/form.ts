import { randomUUID } from 'node:crypto';

export type FormFile = {
  readonly filename: string;
  readonly contentType: string;
  readonly bytes: Uint8Array;
};
export type FormField = readonly [name: string, value: string | FormFile];
export type EncodedForm = { readonly contentType: string; readonly body: string | Uint8Array };

/** Encodes a form in the shorter of its two encodings; multipart is required for files only. */
export function encodedForm(fields: readonly FormField[]): EncodedForm {
  const texts = new URLSearchParams();
  for (const [name, value] of fields) {
    if (typeof value !== 'string') return multipart(fields);
    texts.append(name, value);
  }
  return { contentType: 'application/x-www-form-urlencoded', body: texts.toString() };
}

/** RFC 7578. The boundary is random, so content cannot contain it. */
function multipart(fields: readonly FormField[]): EncodedForm {
  const boundary = `despatch-${randomUUID()}`;
  const parts = fields.flatMap(([name, value]) => [
    Buffer.from(`--${boundary}\r\n${headOf(name, value)}\r\n\r\n`),
    typeof value === 'string' ? Buffer.from(value) : value.bytes,
    Buffer.from('\r\n'),
  ]);
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]),
  };
}

function headOf(name: string, value: string | FormFile): string {
  const disposition = `Content-Disposition: form-data; name="${quotable(name)}"`;
  return typeof value === 'string'
    ? disposition
    : `${disposition}; filename="${quotable(value.filename)}"\r\nContent-Type: ${value.contentType}`;
}

/** Escapes as browsers do: a quote or a line break would end the name. */
function quotable(text: string): string {
  return text.replace(/["\r\n]/g, encodeURIComponent);
}
