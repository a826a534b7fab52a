/** A mail with every field that the API supports. */
export const MAIL = {
  channel: 'email',
  to: 'ada@example.com',
  content: {
    from: { name: 'Acme News', address: 'news@acme.example' },
    replyTo: { name: 'Acme Help', address: 'help@acme.example' },
    subject: 'Grüße ✓',
    text: 'Hello\nAda',
    html: '<p>Hello <b>Ada</b> ✓</p>',
    headers: { 'X-Campaign': 'spring' },
    attachments: [
      { filename: 'Grüße 1.txt', contentType: 'text/plain', content: Buffer.from('Hi').toString('base64') },
    ],
  },
} as const;
