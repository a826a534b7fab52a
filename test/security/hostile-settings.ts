/** What a tenant may try to have called: by a host of its own, or by what a careless adapter puts into a URL. */
export const HOSTILE_SETTINGS = [
  'inside.attack.example',
  'attack.example/',
  'attack.example#',
  'attack.example?',
  '@attack.example',
  'a@attack.example',
  'attack.example:443',
  '.attack.example',
  'https://inside.attack.example/hook',
  'https://inside.attack.example',
  '../../attack.example',
  '//attack.example/',
  '\\\\attack.example\\',
  'infobip.com.attack.example',
  '127.0.0.1',
  'https://127.0.0.1/hook',
  'https://169.254.169.254/latest/meta-data',
  'https://[::ffff:127.0.0.1]/hook',
] as const;

const OURS = /(?:^|\.)attack\.example\.?$|^127\.|^169\.254\.|^\[/;

/** Whether one of them has had its way. */
export function isOurs(hostname: string): boolean {
  return OURS.test(hostname);
}
