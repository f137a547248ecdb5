// Where the bytes of an image or a file are. Nothing here fetches or reads: a source says where to look, and whoever sends
// the message looks.

import type { Shape } from "../parse/shape.ts";

import { object, oneOf, required, string, variant } from "../parse/shape.ts";

export type ContentSource = Base64Source | UrlSource | FileSource | ProviderFileSource;

/** The bytes themselves. */
type Base64Source = { readonly type: "base64"; readonly data: string };
/** Somewhere on the web; never fetched by us. */
type UrlSource = { readonly type: "url"; readonly url: string };
/** On the disk of whoever sends the message. A door that is open to strangers has to refuse it. */
type FileSource = { readonly type: "file"; readonly path: string };
/** Uploaded to a provider before, known there by its id. */
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
