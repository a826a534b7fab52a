import type { HttpResult, ProviderContext } from '../provider.ts';
import type { AwsAccount } from './account.ts';
import { awsHost } from './aws-host.ts';
import { signedRequestHeaders } from './sign.ts';

type AwsCall = {
  /** First label of the host name. */
  readonly endpoint: string;
  /** Service name in the signature's credential scope. */
  readonly service: string;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
};

/** Makes one signed call to an AWS service in the account's region. */
export function callAws(call: AwsCall, account: AwsAccount, context: ProviderContext): Promise<HttpResult> {
  const { endpoint, service, method, path, headers, body = '' } = call;
  const { region, accessKeyId } = account.config;
  const origin = `https://${awsHost(endpoint, region)}`;
  const scope = { service, region, keys: { accessKeyId, ...account.secrets }, now: context.epochMs() };
  return context.http({
    method,
    url: `${context.origin(origin)}${path}`,
    headers: signedRequestHeaders({ method, url: `${origin}${path}`, headers, body }, scope),
    ...(body === '' ? {} : { body }),
  });
}
