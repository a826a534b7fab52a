import { expect, test } from 'vitest';
import type { DependencyFault } from '#core/domain/fault/dependency-error.ts';
import { aborted, KubeError, notLeading, unanswered } from './kube-error.ts';

const answered = (code: number): KubeError => new KubeError({ code, reason: 'Any', message: 'no' });

test.each<[DependencyFault, string, KubeError]>([
  ['deadline', 'no answer in time', unanswered('Timeout', 'late')],
  ['unavailable', 'no connection', unanswered('Network', 'reset')],
  ['unavailable', 'too many requests', answered(429)],
  ['unavailable', 'a server fault', answered(503)],
  ['refused', 'an unknown login', answered(401)],
  ['refused', 'a missing permission', answered(403)],
  ['refused', 'credentials that cannot be read', unanswered('Credentials', 'no file')],
  ['rejected', 'an outdated version', answered(409)],
  ['rejected', 'an answer that is not JSON', unanswered('Unreadable', 'html')],
  ['aborted', 'a call that was ended', aborted(new Error('enough'))],
  ['aborted', 'a write that was not sent', notLeading()],
])('the fault is %s for %s', (fault, _, error) => {
  expect([error.dependency, error.fault]).toEqual(['kubernetes', fault]);
});
