import { z } from 'zod';
import { publicUrlFault } from '#core/domain/message/public-url.ts';
import { canHaveCaption, mediaTypeOf, WHATSAPP_MEDIA_TYPES } from '#core/domain/message/whatsapp-media.ts';
import { atMostPairs, lineText, text } from '../http/input/fields.ts';

const BUTTONS_MAX = 10;
const VARIABLES_MAX = 100;

/** A URL that the vendor downloads. */
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

const textHeader = z.object({
  type: z.literal('text'),
  text: text(1, 1024),
  parameterName: lineText(1, 64)
    .optional()
    .describe('Name of the variable, if the template names its variables.'),
});
const imageHeader = z.object({ type: z.literal('image'), url: link() });
const videoHeader = z.object({ type: z.literal('video'), url: link() });
const documentHeader = z.object({ type: z.literal('document'), url: link(), filename: filename() });
const locationHeader = z.object({
  type: z.literal('location'),
  latitude: z.number().min(-90).max(90),
  longitude: z.number().min(-180).max(180),
  name: lineText(1, 1000).optional(),
  address: lineText(1, 1000).optional(),
});

const header = z
  .discriminatedUnion('type', [
    textHeader.meta({ id: 'WhatsappTextHeader', description: 'A text.' }),
    imageHeader.meta({ id: 'WhatsappImageHeader', description: 'An image.' }),
    videoHeader.meta({ id: 'WhatsappVideoHeader', description: 'A video.' }),
    documentHeader.meta({ id: 'WhatsappDocumentHeader', description: 'A document.' }),
    locationHeader.meta({ id: 'WhatsappLocationHeader', description: 'A place on the map.' }),
  ])
  .meta({
    id: 'WhatsappHeader',
    description: 'Content of the header, if the template has one with a variable or media.',
    discriminator: { propertyName: 'type' },
  });

const index = z
  .int()
  .min(0)
  .max(BUTTONS_MAX - 1)
  .optional()
  .describe('Position of the button in the template, from 0. Defaults to its position in this list.');

const urlButton = z.object({
  type: z.literal('url'),
  index,
  text: text(1, 2000).describe("Value of the variable in the button's link."),
});
const replyButton = z.object({
  type: z.literal('quick_reply'),
  index,
  payload: text(1, 128).describe('Returned with the reply.'),
});
const codeButton = z.object({
  type: z.literal('copy_code'),
  index,
  code: lineText(1, 15).describe('Code to copy.'),
});

const button = z
  .discriminatedUnion('type', [
    urlButton.meta({ id: 'WhatsappUrlButton', description: 'Opens a link.' }),
    replyButton.meta({ id: 'WhatsappQuickReplyButton', description: 'Sends a reply.' }),
    codeButton.meta({ id: 'WhatsappCopyCodeButton', description: 'Copies a code.' }),
  ])
  .meta({
    id: 'WhatsappButton',
    description: 'Value for a button that has a variable.',
    discriminator: { propertyName: 'type' },
  });

const template = z.object({
  name: lineText(1, 512),
  language: z
    .string()
    .regex(/^[A-Za-z]{2,3}(?:[_-][A-Za-z0-9]{2,8})*$/, 'Must be a language, such as en or en_US'),
  variables: z
    .union(
      [
        z.array(text(0, 1024)).max(VARIABLES_MAX),
        atMostPairs(VARIABLES_MAX, z.record(z.string(), z.string().max(1024))),
      ],
      { error: 'Must be a list of strings, or an object of strings' },
    )
    .default([])
    .describe('Variables of the body, at most 100: a list, or an object if the template names them.'),
  header: header.optional(),
  buttons: z
    .array(button)
    .max(BUTTONS_MAX)
    .refine((all) => new Set(all.map((one, place) => one.index ?? place)).size === all.length, {
      params: { rule: 'unique' },
      error: 'Must not name one button twice',
    })
    .optional()
    .describe('Values for buttons that have a variable; other buttons are omitted.'),
});

export const whatsappTemplate = template.meta({
  id: 'WhatsappTemplate',
  description: 'A template that WhatsApp has approved, with the values of its variables.',
});

/** A file that the vendor downloads and displays. */
export const whatsappMedia = z
  .object({
    url: link(),
    type: z
      .enum(WHATSAPP_MEDIA_TYPES)
      .optional()
      .describe("Defaults to the type by the file extension in the link's path, else to `document`."),
    caption: text(1, 1024).optional().describe('Not allowed with audio and stickers.'),
    filename: filename().describe('Name that the recipient sees. Only with documents.'),
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
  })
  .meta({ id: 'WhatsappMedia', description: 'A file that WhatsApp fetches and shows.' });
