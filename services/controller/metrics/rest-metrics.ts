import { Counter, type Registry } from 'prom-client';

/**
 * Status codes whose series start at 0, so that `rate()` sees their first occurrence; the series of others are created when
 * they occur.
 */
const REST_CODES: Readonly<Record<string, readonly string[]>> = {
  GET: ['200', '404', '410'],
  POST: ['201', '409'],
  PUT: ['200', '409'],
  PATCH: ['200', '201', '404', '409', '422'],
  DELETE: ['200', '404', '409'],
};
const REST_FAULT_CODES = ['401', '403', '429', '500', '503', '504', '<error>'];

export function restMetrics(registry: Registry) {
  const requests = new Counter({
    name: 'rest_client_requests_total',
    help: 'Requests to the Kubernetes API by HTTP status, <error> for those without an answer.',
    labelNames: ['code', 'method'],
    registers: [registry],
  });
  for (const [method, codes] of Object.entries(REST_CODES)) {
    for (const code of [...codes, ...REST_FAULT_CODES]) requests.inc({ code, method }, 0);
  }
  return ({ code, method }: { readonly code: string; readonly method: string }): void =>
    requests.inc({ code, method });
}
