const ADDRESS = /^(?:\d+(?:\.\d+){3}|\[.*\])$/;
const INTERNAL = /(?:^|\.)(?:localhost|local|internal|intranet|lan|home|corp|cluster|svc)$/;

/** Why a vendor cannot fetch a link from outside; undefined for a link that it may reach. */
export type UrlFault = { readonly rule: 'url' | 'url_blocked'; readonly message: string };

/** Checks that a link uses http or https and a public host name. Whether a server answers there is not checked. */
export function publicUrlFault(text: string): UrlFault | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    return { rule: 'url', message: 'Must be an absolute http or https URL' };
  }
  const host = url.hostname.replace(/\.$/, '');
  const isPublic = host.includes('.') && !ADDRESS.test(host) && !INTERNAL.test(host);
  return isPublic
    ? undefined
    : {
        rule: 'url_blocked',
        message:
          'Must name a public host: the vendor fetches it, and no address or internal name can be reached from there',
      };
}
