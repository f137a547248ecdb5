// What the converters of the four APIs share: from a recorded request body to the request that a user of the library
// would write.
//
// Rules for converters
//   1. What the library has a type for is expressed by that type: messages, parts, tools, provider tools, settings.
//   2. What belongs to one message, part or tool and has no type becomes a provider option of it.
//   3. Only what the library leaves to the caller on purpose is a provider option of the request. Every such field is
//      counted, and the report lists it.
//   4. A reply of the model is what the codec decoded from it (`decoded`): only so are signatures and item ids stored.
//      A reply of nothing but text and calls is also expressed by constructors (`written`), as in a history of another
//      source.
//   5. No converter imports code from `lib/src/core/wire` other than the codec itself.

import type { UserPart } from "../../../src/core/model/internal.ts";
import type { WireApi } from "../../../src/core/wire/internal.ts";
import type { Rule } from "./compare.ts";
import type { Json, JsonObject, Message, ModelRequest } from "everturn";
import type { request, Codec, Quirks, WireContext } from "everturn/advanced";

import { isEmpty, isObject } from "./json.ts";

/** The fields of a request besides its messages. */
export type RequestFields = NonNullable<Parameters<typeof request>[1]>;

/** A recorded request, with what is known about it besides its body. */
export type Recording = {
  readonly body: JsonObject;
  /** The model, for an API whose body does not name it; `null` if unknown. */
  readonly model: string | null;
  /** Items of recorded answers by id, for bodies that refer to items by id (`item_reference`). */
  readonly items: ReadonlyMap<string, JsonObject>;
};

/** How replies of the model are expressed (rule 4). */
export type ReplyForm = "decoded" | "written";

export type Converted = {
  readonly request: ModelRequest;
  readonly context: WireContext;
  /** Fields of the body that are provider options of the request. */
  readonly options: readonly string[];
  /** Fields of messages, parts and tools that are passed as provider options. */
  readonly providerOptions: readonly string[];
};

/** One API: its codec, the converter, and the harmless differences. */
export type RecordedApi = {
  readonly api: WireApi;
  readonly codec: Codec;
  readonly convert: (recording: Recording, form: ReplyForm) => Converted;
  readonly rules: (recording: Recording) => readonly Rule[];
  /** Fields of the body that the API documents. Other fields are listed as unknown. */
  readonly documented: ReadonlySet<string>;
};

export function contextFor(provider: string, model: string, api: WireApi, quirks: Quirks = {}): WireContext {
  return { route: { provider, endpoint: `https://recorded.example#${api}`, model }, rawChunks: false, quirks };
}

/** Collects the provider options of one request. */
export class ProviderOptions {
  readonly names: string[] = [];
  readonly #provider: string;

  constructor(provider: string) {
    this.#provider = provider;
  }

  /** The field `providerOptions` for the fields that have no type; nothing if there are none. */
  of(place: string, fields: JsonObject): { readonly providerOptions?: { readonly [provider: string]: JsonObject } } {
    if (isEmpty(fields)) return {};
    for (const name of Object.keys(fields)) this.names.push(`${place}.${name}`);
    return { providerOptions: { [this.#provider]: fields } };
  }
}

/** The names of the provider options of a request, those of objects with the name of the object: `text.verbosity`. */
export function optionNames(options: JsonObject, nested: ReadonlySet<string>): readonly string[] {
  return Object.entries(options).flatMap(([name, value]) =>
    nested.has(name) && isObject(value) ? Object.keys(value).map((inner) => `${name}.${inner}`) : [name],
  );
}

type AssistantMessage = Extract<Message, { readonly role: "assistant" }>;

/** The message that the codec decodes from a reply. */
export function decodeTurn(codec: Codec, context: WireContext, reply: Json): AssistantMessage {
  const end = codec.decodeReply(reply, context).find(({ type }) => type === "message_completed" || type === "error");
  if (end?.type === "message_completed") return end.message;
  throw new Error(`a reply of the history cannot be decoded: ${end?.type === "error" ? end.error.message : "no end"}`);
}

/** Content without anything for the model. The library refuses such a user message, so its user would leave it out. */
export function isBlank(content: string | readonly UserPart[]): boolean {
  return typeof content === "string"
    ? content === ""
    : content.every((part) => part.type === "text" && part.text === "");
}

/** The source and type of media in a `data:` URL or at another URL. */
export function mediaOf(url: string): {
  readonly source: { readonly type: "base64"; readonly data: string } | { readonly type: "url"; readonly url: string };
  readonly mimeType: string | null;
} {
  const [, type, data] = /^data:([^;,]+)(?:;[^;,]+)*;base64,(.*)$/s.exec(url) ?? [];
  if (type === undefined || data === undefined) return { source: { type: "url", url }, mimeType: null };
  return { source: { type: "base64", data }, mimeType: type };
}

/** The arguments of a call as the model wrote them, and as an object. */
export function writtenArguments(text: string): {
  readonly arguments: JsonObject | null;
  readonly rawArguments: string;
} {
  try {
    const value: Json = JSON.parse(text);
    return { arguments: isObject(value) ? value : null, rawArguments: text };
  } catch {
    return { arguments: null, rawArguments: text };
  }
}
