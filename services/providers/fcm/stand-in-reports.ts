import { behaviourOfWord } from '../behaviour.ts';
import { parseJson } from '../classify-error.ts';
import type { Reporter } from '../stand-in-reports.ts';

/** FCM never sends reports; what it does not deliver, it refuses at the call. */
export const fcmReporter: Reporter = {
  taken(request, { status, body }) {
    const name = (body as { readonly name?: string } | undefined)?.name;
    if (status !== 200 || name === undefined) return [];
    const { message } = parseJson(request.body) as { readonly message: { readonly token: string } };
    const to = message.token;
    return [{ reference: '', to, behaviour: behaviourOfWord(to), providerMessageId: name }];
  },
  refused: () => ({
    status: 404,
    body: {
      error: {
        code: 404,
        message: 'Requested entity was not found.',
        status: 'NOT_FOUND',
        details: [
          { '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode: 'UNREGISTERED' },
        ],
      },
    },
  }),
};
