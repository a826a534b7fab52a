import { describe, expect, test } from 'vitest';
import { normalAddress, parseMailbox } from './mailbox.ts';

describe('a mailbox', () => {
  test.each([
    ['ann@example.com', { address: 'ann@example.com' }],
    ['Ann <ann@example.com>', { name: 'Ann', address: 'ann@example.com' }],
    ['Acme Inc. <ann@example.com>', { name: 'Acme Inc.', address: 'ann@example.com' }],
    ['"Acme, Inc." <ann@example.com>', { name: 'Acme, Inc.', address: 'ann@example.com' }],
    ['<ann@example.com>', { address: 'ann@example.com' }],
    ['"john doe"@example.com', { address: '"john doe"@example.com' }],
    ['Jürgen <jürgen@exämple.de>', { name: 'Jürgen', address: 'jürgen@exämple.de' }],
  ])('%s is read', (text, mailbox) => {
    expect(parseMailbox(text)).toEqual(mailbox);
  });

  test.each([
    '',
    'ann',
    'ann@',
    '@example.com',
    'a@b@c',
    'a..b@example.com',
    'ann@-example.com',
    'team: a@b.example;',
    'a@b.example, c@d.example',
    'Acme, Inc. <ann@example.com>',
  ])('%s is none', (text) => {
    expect(parseMailbox(text)).toBeUndefined();
  });
});

describe('a bare address', () => {
  test.each([
    ['Ann@Example.COM', 'Ann@example.com'],
    ["o'neil+tag@example.com", "o'neil+tag@example.com"],
    ['"john doe"@Example.com', '"john doe"@example.com'],
    ['root@localhost', 'root@localhost'],
  ])('%s has its domain in lower case', (text, normal) => {
    expect(normalAddress(text)).toBe(normal);
  });

  test.each([
    'Ann <ann@example.com>',
    '<ann@example.com>',
    ' ann@example.com',
    'ann@example.com (work)',
    'ann',
  ])('%s is more or less than one', (text) => {
    expect(normalAddress(text)).toBeUndefined();
  });
});
