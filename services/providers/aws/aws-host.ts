/** The form of a region's name. */
export const REGION = /^(?:[a-z]{2,4}-)+[a-z]{4,12}-\d$/;

/** Returns the host name of a service in a region. @param endpoint first label of the name. */
export function awsHost(endpoint: string, region: string): string {
  return `${endpoint}.${region}.${region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com'}`;
}
