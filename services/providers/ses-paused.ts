/** What Amazon SES answers over HTTPS and SMTP, as a rejected mail, where it has paused or suspended the sending of an account. */
export const SES_SENDING_PAUSED = /sending (?:paused|suspended) for this account/i;
