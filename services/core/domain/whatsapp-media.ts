export const WHATSAPP_MEDIA_TYPES = ['image', 'video', 'audio', 'document', 'sticker'] as const;
export type WhatsappMediaType = (typeof WHATSAPP_MEDIA_TYPES)[number];

const BY_ENDING: readonly (readonly [RegExp, WhatsappMediaType])[] = [
  [/\.(?:jpe?g|png)$/, 'image'],
  [/\.(?:mp4|3gpp?)$/, 'video'],
  [/\.(?:aac|amr|mp3|m4a|ogg|opus)$/, 'audio'],
  [/\.webp$/, 'sticker'],
];

/** WhatsApp wants to know the kind of media. Where the message does not say, the ending of the path in its link does. */
export function mediaTypeOf(media: {
  readonly url: string;
  readonly type?: WhatsappMediaType | undefined;
}): WhatsappMediaType {
  if (media.type !== undefined) return media.type;
  const path = URL.canParse(media.url) ? new URL(media.url).pathname.toLowerCase() : '';
  return BY_ENDING.find(([ending]) => ending.test(path))?.[1] ?? 'document';
}

export function canHaveCaption(type: WhatsappMediaType): boolean {
  return type !== 'audio' && type !== 'sticker';
}
