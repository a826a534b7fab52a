export const WHATSAPP_MEDIA_TYPES = ['image', 'video', 'audio', 'document', 'sticker'] as const;
export type WhatsappMediaType = (typeof WHATSAPP_MEDIA_TYPES)[number];

const BY_ENDING: readonly (readonly [RegExp, WhatsappMediaType])[] = [
  [/\.(?:jpe?g|png)$/, 'image'],
  [/\.(?:mp4|3gpp?)$/, 'video'],
  [/\.(?:aac|amr|mp3|m4a|ogg|opus)$/, 'audio'],
  [/\.webp$/, 'sticker'],
];

/** Returns the kind of media that WhatsApp requires. If the message does not state it, the file extension in the link decides. */
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
