/** The guarantees that the suite checks, each with the words that reports use for it. */
export const VIOLATIONS = {
  lost: 'every acknowledged message is stored and has come to an end that its record explains',
  failed: 'no message fails because of an outage of ours',
  ghost: 'nothing is sent that was not stored',
  duplicate: 'a second call only with duplicateRisk, or after the provider asked for it',
  unrecorded: 'every call has an attempt that was committed before it',
  at_most_once: 'an at_most_once message is called once at most',
  ambiguous: 'a message whose one call got no answer is unknown, or marked with duplicateRisk',
  idempotency: 'an idempotency key stands for one message',
  moves: 'a message moves along the states that are allowed, and never back',
  attempts: 'attempt numbers have no gap, every attempt is closed, and no two of a message are open at once',
  canceled: 'a message whose cancel was answered with 200 is not called afterwards, and stays canceled',
  instant: 'a message is not called before the instant that its sender named',
  suppressed: 'no attempt is begun for a recipient after its suppression was answered with a 201',
  failover:
    'after a call that a provider may have taken another account is called for want of a receipt alone',
  silence:
    'a message of which no receipt comes in time goes out through the next account too, if it may go out twice',
  heard: 'a message of which a receipt came in time goes out through no other account',
  quota: 'exactly the daily limit is accepted',
  rate: 'no more requests a minute than the limit',
  revocation: 'a revoked key is refused within five seconds',
  suspension: 'a suspended tenant is refused and not delivered for',
  receipts: 'a receipt that was answered with a 2xx is applied, or in the history of its message',
  feed: "each change of a message is in its tenant's feed once, in order, and the feed has no hole",
  endpoint_feed: "an endpoint's feed has each event of its tenant once, in order, without a hole",
  told: "each event of an endpoint's feed reached its receiver, under one number and one id",
  ordered: 'an ordered endpoint is told of a message in order',
  usage: 'what is counted of a tenant is what its messages say',
  signatures: 'whatever an endpoint is sent is signed with its secret',
  answers: 'a client is only told what is true',
  canary: 'no secret is anywhere but where it belongs',
  end: 'a process that is told to end does so with exit code 0',
  recovery: 'everything is ready again by itself',
} as const;

export type ViolationName = keyof typeof VIOLATIONS;
export type Violation = { readonly name: ViolationName; readonly detail: string };
