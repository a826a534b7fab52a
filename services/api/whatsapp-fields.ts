import { z } from 'zod';
import { publicUrlFault } from '#core/domain/public-url.ts';
import { canHaveCaption, mediaTypeOf, WHATSAPP_MEDIA_TYPES } from '#core/domain/whatsapp-media.ts';
import { lineText, text } from './fields.ts';

const BUTTONS_MAX = 10;

/** A link that the vendor fetches. */
const link = () =>
  z
    .string()
    .max(2048)
    .check((context) => {
      const fault = publicUrlFault(context.value);
      if (fault === undefined) return;
      const { rule, message } = fault;
      context.issues.push({ code: 'custom', input: context.value, params: { rule }, message });
    })
    .meta({ format: 'uri' });

const filename = () => lineText(1, 255).optional().describe('Name that the recipient sees.');

const header = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('text'),
    text: text(1, 1024),
    parameterName: lineText(1, 64).optional().describe('Where the template names its variables.'),
  }),
  z.object({ type: z.literal('image'), url: link() }),
  z.object({ type: z.literal('video'), url: link() }),
  z.object({ type: z.literal('document'), url: link(), filename: filename() }),
  z.object({
    type: z.literal('location'),
    latitude: z.number().min(-90).max(90),
    longitude: z.number().min(-180).max(180),
    name: lineText(1, 1000).optional(),
    address: lineText(1, 1000).optional(),
  }),
]);

const index = z
  .int()
  .min(0)
  .max(BUTTONS_MAX - 1)
  .optional()
  .describe('Place of the button in the template, from 0. Default: its place in this list.');

const button = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('url'),
    index,
    text: text(1, 2000).describe("What stands for the variable in the button's link."),
  }),
  z.object({
    type: z.literal('quick_reply'),
    index,
    payload: text(1, 128).describe('Comes back with the reply.'),
  }),
  z.object({ type: z.literal('copy_code'), index, code: lineText(1, 15).describe('Code to copy.') }),
]);

/** A template's name and what fills its variables. */
export const whatsappTemplate = z.object({
  name: lineText(1, 512),
  language: z.string().regex(/^[A-Za-z]{2,3}(?:[_-][A-Za-z0-9]{2,8})*$/),
  variables: z
    .union([z.array(text(0, 1024)).max(100), z.record(z.string(), z.string().max(1024))])
    .default([])
    .describe('Variables of the body: a list, or an object where the template names them.'),
  header: header
    .optional()
    .describe('What fills the header, where the template has one with a variable or media.'),
  buttons: z
    .array(button)
    .max(BUTTONS_MAX)
    .refine((all) => new Set(all.map((one, place) => one.index ?? place)).size === all.length, {
      params: { rule: 'unique' },
      message: 'Must not name one button twice',
    })
    .optional()
    .describe('What fills buttons that have a variable; others are left out.'),
});

/** A file that the vendor fetches and shows. */
export const whatsappMedia = z
  .object({
    url: link(),
    type: z
      .enum(WHATSAPP_MEDIA_TYPES)
      .optional()
      .describe("Default: by the ending of the link's path; `document` where that says nothing."),
    caption: text(1, 1024).optional().describe('Not with audio and stickers.'),
    filename: filename().describe('Name that the recipient sees. With documents only.'),
  })
  .check((context) => {
    const { caption, filename: name } = context.value;
    const type = mediaTypeOf(context.value);
    const refuse = (field: string, message: string) =>
      context.issues.push({
        code: 'custom',
        input: context.value,
        path: [field],
        params: { rule: 'unsupported' },
        message,
      });
    if (caption !== undefined && !canHaveCaption(type))
      refuse('caption', `Cannot go with media of type ${type}`);
    if (name !== undefined && type !== 'document') refuse('filename', `Cannot go with media of type ${type}`);
  });
