// Values of invocations as bytes.

/** Converts values to bytes and back, as the SDK's `Serde`. */
export type RestateSerde<T> = {
  /** The media type. */
  readonly contentType: string;
  /** Writes a value. */
  readonly serialize: (value: T) => Uint8Array;
  /** Reads a value. */
  readonly deserialize: (data: Uint8Array) => T;
};

/** JSON. A value that is read has the type that the handler on the other side declares. */
export function json<T>(): RestateSerde<T> {
  return {
    contentType: "application/json",
    serialize: (value) => new TextEncoder().encode(JSON.stringify(value)),
    deserialize: (data): T => JSON.parse(new TextDecoder().decode(data)),
  };
}

/** The body of a request of JSON, as bytes: the handler reads it, so that it decides what an invalid body leads to. */
export const unread: RestateSerde<Uint8Array> = {
  contentType: "application/json",
  serialize: (body) => body,
  deserialize: (body) => body,
};
