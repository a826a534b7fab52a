import type { SubmittedMail } from './received-mails.ts';

/**
 * Delivers mails that a vendor's stand-in accepted to the inbox, as the vendor would deliver to a mailbox. @param smtpPort
 * on loopback.
 */
export function mailDelivery(smtpPort: number): (mail: SubmittedMail) => void {
  return ({ text, html, ...mail }) => {
    const parts = { ...(text === '' ? {} : { text }), ...(html === '' ? {} : { html }) };
    // Loaded with the first mail, to keep the start fast.
    void import('nodemailer')
      .then(({ createTransport }) =>
        createTransport({ host: '127.0.0.1', port: smtpPort, ignoreTLS: true }).sendMail({
          ...mail,
          ...parts,
        }),
      )
      // A mail that is missing in the inbox is still on the stand-in's page.
      .catch(() => undefined);
  };
}
