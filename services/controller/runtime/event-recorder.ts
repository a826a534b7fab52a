/** What an event is about: an object as the API server sent it. */
export type EventSubject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
};

export type EventRecorder = {
  /**
   * Tells whoever looks at the object. Never waits, never fails. The same reason and note for the same object within ten
   * minutes is one event with a growing count.
   * @param reason one CamelCase word, at most 128 characters.
   * @param note a sentence without secrets, cut at 1,024 characters.
   */
  readonly record: (about: EventSubject, type: 'Normal' | 'Warning', reason: string, note: string) => void;
};
