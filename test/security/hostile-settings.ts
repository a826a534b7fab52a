/**
 * Hosts and settings with which a tenant may try to make the worker call an address of its choice: as the host itself, or through
 * text that a careless adapter puts into a URL.
 */
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

/** Returns whether one of these settings chose the host. */
export function isOurs(hostname: string): boolean {
  return OURS.test(hostname);
}
