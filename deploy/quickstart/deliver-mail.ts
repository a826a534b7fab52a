import type { SubmittedMail } from './received-mails.ts';

/** Takes what a vendor's stand-in was given to the inbox, as the vendor would to a mailbox. @param smtpPort on loopback. */
export function mailDelivery(smtpPort: number): (mail: SubmittedMail) => void {
  return ({ text, html, ...mail }) => {
    const parts = { ...(text === '' ? {} : { text }), ...(html === '' ? {} : { html }) };
    // Loaded with the first mail: a start does without it.
    void import('nodemailer')
      .then(({ createTransport }) =>
        createTransport({ host: '127.0.0.1', port: smtpPort, ignoreTLS: true }).sendMail({
          ...mail,
          ...parts,
        }),
      )
      // What is missing in the inbox is still on the stand-in's page.
      .catch(() => undefined);
  };
}
