// The source of the bytes of an image or a file. A source is a reference: this file performs no I/O. The sender of a message resolves it.

import type { Shape } from "../parse/shape.ts";

import { object, oneOf, required, string, variant } from "../parse/shape.ts";

/** The source of the bytes of an image or a file. The union is discriminated by `type`. */
export type ContentSource = Base64Source | UrlSource | FileSource | ProviderFileSource;

/** The bytes, as base64 text. */
type Base64Source = { readonly type: "base64"; readonly data: string };
/** A URL that the provider fetches. The library never fetches it, which rules out SSRF through content. */
type UrlSource = { readonly type: "url"; readonly url: string };
/** A file on the machine that sends the message. The HTTP server must refuse it from clients: it would disclose local files. */
type FileSource = { readonly type: "file"; readonly path: string };
/** A file that was uploaded to a provider earlier, by the provider's id. */
type ProviderFileSource = { readonly type: "provider_file"; readonly provider: string; readonly id: string };

export const contentSourceShape: Shape<ContentSource> = variant<ContentSource, "type">("type", {
  base64: object<Base64Source>({ type: required(oneOf(["base64"])), data: required(string) }),
  url: object<UrlSource>({ type: required(oneOf(["url"])), url: required(string) }),
  file: object<FileSource>({ type: required(oneOf(["file"])), path: required(string) }),
  provider_file: object<ProviderFileSource>({
    type: required(oneOf(["provider_file"])),
    provider: required(string),
    id: required(string),
  }),
});
