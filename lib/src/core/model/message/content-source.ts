// The source of the bytes of an image or a file. A source is a reference: this file performs no I/O. The sender of a
// message resolves it.

import type { InferUnion, Shape } from "../parse/shape.ts";

import { required, string, variant } from "../parse/shape.ts";

const sourceCases = {
  /** The bytes, as base64 text. */
  base64: { data: required(string) },
  /** A URL that the provider fetches. The library never fetches it, which rules out SSRF through content. */
  url: { url: required(string) },
  /**
   * A file on the machine that sends the message. The HTTP server must refuse it from clients: it would disclose local
   * files.
   */
  file: { path: required(string) },
  /** A file that was uploaded to a provider earlier, by the provider's id. */
  provider_file: { provider: required(string), id: required(string) },
};

/** The source of the bytes of an image or a file. The union is discriminated by `type`. */
export type ContentSource = InferUnion<"type", typeof sourceCases>;

export const contentSourceShape: Shape<ContentSource> = variant("type", sourceCases);
