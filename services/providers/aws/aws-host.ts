/** The form of a region's name. */
export const REGION = /^(?:[a-z]{2,4}-)+[a-z]{4,12}-\d$/;

/** Domains of the partitions other than AWS's main one and GovCloud, by how the names of their regions begin. */
const DOMAINS: readonly (readonly [begin: string, domain: string])[] = [
  ['cn-', 'amazonaws.com.cn'],
  // The European Sovereign Cloud.
  ['eusc-', 'amazonaws.eu'],
];

/** Returns the host name of a service in a region. @param endpoint first label of the name. */
export function awsHost(endpoint: string, region: string): string {
  const domain = DOMAINS.find(([begin]) => region.startsWith(begin))?.[1] ?? 'amazonaws.com';
  return `${endpoint}.${region}.${domain}`;
}
