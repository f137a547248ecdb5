// The codec of Google's Gemini API. Requests always use `streamGenerateContent?alt=sse`; `generateContent` replies are
// decoded too. The base URL ends in the version of the API (`/v1beta`). The adapter adds the key (`x-goog-api-key`).

import type { Codec, EncodedRequest, WireContext } from "../codec.ts";

import { asObject, countAt, pickFields } from "../fields.ts";
import { withProviderTools } from "../listed-tools.ts";
import { decodeError, decoder, decodeReply } from "./decode.ts";
import { encode } from "./encode.ts";

/** The codec of Google's Gemini API (`generateContent` and `streamGenerateContent`). */
export const geminiGenerateContent: Codec = {
  api: "gemini",
  encode: (request, context) => encode(withProviderTools(request), context),
  decoder,
  decodeReply,
  decodeError,
  tokenCounting: {
    requestFor: countRequest,
    read: (body) => countAt(asObject(body), "totalTokens"),
  },
};

/**
 * The request of `countTokens`. The Gemini API counts tools and instructions only inside of a `generateContentRequest`,
 * which Vertex AI does not have.
 */
function countRequest({ path, body }: EncodedRequest, { route }: WireContext): Pick<EncodedRequest, "path" | "body"> {
  const [modelPath = ""] = path.split(":streamGenerateContent");
  const isVertex = route.endpoint.includes("/publishers/google");
  return {
    path: `${modelPath}:countTokens`,
    body: isVertex
      ? pickFields(body, ["contents", "systemInstruction", "tools", "generationConfig"])
      : { generateContentRequest: { model: modelPath.slice(1), ...body } },
  };
}
