// The part of the AI SDK's specifications that the bridge uses, as structural types. The package `@ai-sdk/provider` is
// not imported, not even for types: a model of any of the specifications v2, v3 and v4 is assignable to
// `AiSdkLanguageModel`, and no peer dependency is needed (docs/decisions/0042).
//
// Differences between the specifications that the bridge handles
//   files            v2, v3: base64 text or a `URL`; v4: `{ type: "data" | "url" | "reference" }`
//   media in results v2: `media`; v3: `image-data`, `file-data`, `image-url`, `file-url`; v4: `file`
//   provider tools   v2: `provider-defined`; v3, v4: `provider`
//   finish reason    v2: a word; v3, v4: `{ unified, raw }`
//   usage            v2: flat counts; v3, v4: `inputTokens` and `outputTokens` with details
//   reasoning level  v4: an option of the call; v2, v3: an option of the provider
//
// Metadata comes out of a model as `providerMetadata` and goes back in as `providerOptions`.

/** A language model of the AI SDK: `LanguageModelV2`, `LanguageModelV3` or `LanguageModelV4` of `@ai-sdk/provider`. */
export type AiSdkLanguageModel = {
  /** `v2` (AI SDK 5), `v3` (AI SDK 6) or `v4` (AI SDK 7). */
  readonly specificationVersion: string;
  /** The provider and its API, for example `anthropic.messages`. */
  readonly provider: string;
  /** The provider's name of the model. */
  readonly modelId: string;
  /** The URLs that the provider fetches itself, by media type. */
  readonly supportedUrls?: UrlPatterns | PromiseLike<UrlPatterns>;
  /** Makes one call. */
  doStream(options: AiSdkCallOptions): PromiseLike<AiSdkStreamResult>;
};

/** A provider of the AI SDK, such as `openai` of `@ai-sdk/openai`: it creates models by name. */
export type AiSdkProvider = {
  /** Creates the model with this name. */
  languageModel(modelId: string): AiSdkLanguageModel;
};

/** Regular expressions of URLs, by media type: `{ "image/*": [/^https:/] }`. */
export type UrlPatterns = { readonly [mediaType: string]: readonly RegExp[] };

/**
 * The options of one call. The parameter of a method, so that the stricter types of every specification are comparable
 * with it.
 */
export type AiSdkCallOptions = {
  readonly prompt: readonly PromptMessage[];
  readonly maxOutputTokens?: number | undefined;
  readonly temperature?: number | undefined;
  readonly stopSequences?: readonly string[] | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly responseFormat?: object | undefined;
  readonly seed?: number | undefined;
  readonly tools?: readonly object[] | undefined;
  readonly toolChoice?: object | undefined;
  readonly includeRawChunks?: boolean | undefined;
  readonly abortSignal?: AbortSignal | undefined;
  readonly headers?: { readonly [name: string]: string | undefined } | undefined;
  readonly reasoning?: string | undefined;
  readonly providerOptions?: { readonly [provider: string]: object } | undefined;
};

/** A message of a prompt. The content of a system message is text; that of the others is a list of parts. */
export type PromptMessage = {
  readonly role: string;
  readonly content: string | readonly object[];
  readonly providerOptions?: { readonly [provider: string]: object } | undefined;
};

/** The result of `doStream`. */
export type AiSdkStreamResult = {
  readonly stream: ReadableStream<StreamPart>;
  readonly response?: { readonly headers?: { readonly [name: string]: string } | undefined } | undefined;
};

/** A part of a stream. `decode.ts` reads the fields of each type. */
export type StreamPart = { readonly type: string };

/** The specifications that the bridge knows. */
export type Specification = "v2" | "v3" | "v4";

/** The specification of a model; `null`: the bridge does not know it. */
export function specificationOf({ specificationVersion }: AiSdkLanguageModel): Specification | null {
  switch (specificationVersion) {
    case "v2":
    case "v3":
    case "v4":
      return specificationVersion;
    default:
      return null;
  }
}
