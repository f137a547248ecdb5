// Messages as they are posted, in OpenAI's words, and as ours. One of theirs is one of ours, so that places stay what they are.
//
// Rules:
//   1. A field nobody knows is refused, by its path. In assistant messages and their calls it is let be: replies come back with whatever
//      helpers of clients have hung on them.
//   2. No disk and no file of a provider's: an image is a URL or bytes, any other file is bytes.
//   3. Arguments of calls are kept to the letter, whatever they are. What is no JSON object is no arguments.
//   4. Whoever answers a call does not say of which tool: a name there is not used.

import type { Message, ToolCallInput, UserPart } from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";

import {
  assistant,
  filePart,
  imageFromBase64,
  imageFromUrl,
  imagePart,
  system,
  textPart,
  toolResult,
  user,
} from "../../model/internal.ts";
import {
  array,
  fallback,
  isPlainObject,
  json,
  jsonObject,
  object,
  oneOf,
  read,
  required,
  string,
  variant,
} from "../../model/parse/reading.ts";
import { content, lenient, matching, maybe, none } from "./fields.ts";

type PostedText = { readonly type: "text"; readonly text: string; readonly prompt_cache_breakpoint: unknown };
type PostedImage = {
  readonly type: "image_url";
  readonly image_url: { readonly url: string; readonly detail: "auto" | "low" | "high" | null };
  readonly prompt_cache_breakpoint: unknown;
};
type PostedAudio = {
  readonly type: "input_audio";
  readonly input_audio: { readonly data: string; readonly format: "wav" | "mp3" };
  readonly prompt_cache_breakpoint: unknown;
};
type PostedFile = {
  readonly type: "file";
  readonly file: { readonly file_data: string; readonly filename: string | null };
  readonly prompt_cache_breakpoint: unknown;
};
type PostedRefusal = { readonly type: "refusal"; readonly refusal: string };
type PostedPart = PostedText | PostedImage | PostedAudio | PostedFile;

type Named = { readonly name: string | null };
type PostedInstructions<Role extends string> = Named & {
  readonly role: Role;
  readonly content: string | readonly PostedText[];
};
type PostedUser = Named & { readonly role: "user"; readonly content: string | readonly PostedPart[] };
type PostedAssistant = Named & {
  readonly role: "assistant";
  readonly content: string | readonly (PostedText | PostedRefusal)[] | null;
  readonly refusal: string | null;
  readonly tool_calls: readonly PostedCall[] | null;
  readonly function_call: null;
  readonly audio: null;
};
type PostedAnswer = Named & {
  readonly role: "tool";
  readonly tool_call_id: string;
  readonly content: string | readonly PostedText[];
};
export type PostedMessage =
  | PostedInstructions<"system">
  | PostedInstructions<"developer">
  | PostedUser
  | PostedAssistant
  | PostedAnswer;

type PostedCall = {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
};

const breakpoint = { prompt_cache_breakpoint: maybe<unknown>(json) };
const textShape = object<PostedText>({ type: required(oneOf(["text"])), text: required(string), ...breakpoint });
const textsShape = content(variant<PostedText, "type">("type", { text: textShape }));

const base64 = "[A-Za-z0-9+/]+={0,2}";
/** Bytes in a URL: their type, and base64. */
const dataUrl = new RegExp(`^data:([\\w.+-]+/[\\w.+-]+)(?:;[\\w.+-]+=[\\w.+-]+)*;base64,(${base64})$`);

const imageUrl: Shape<string> = (input, reading) => {
  if (typeof input !== "string") return reading.report("invalid_type", "must be a URL");
  if (/^https?:\/\/[^\s]+$/.test(input)) return input;
  const type = dataUrl.exec(input)?.[1];
  return type !== undefined && type.startsWith("image/")
    ? input
    : reading.report("invalid_image", "must be an http or https URL, or a data URL of an image in base64");
};

const partShape: Shape<PostedPart> = variant<PostedPart, "type">("type", {
  text: textShape,
  image_url: object<PostedImage>({
    type: required(oneOf(["image_url"])),
    image_url: required(
      object<PostedImage["image_url"]>({ url: required(imageUrl), detail: maybe(oneOf(["auto", "low", "high"])) }),
    ),
    ...breakpoint,
  }),
  input_audio: object<PostedAudio>({
    type: required(oneOf(["input_audio"])),
    input_audio: required(
      object<PostedAudio["input_audio"]>({
        data: required(matching(new RegExp(`^${base64}$`), "base64")),
        format: required(oneOf(["wav", "mp3"])),
      }),
    ),
    ...breakpoint,
  }),
  file: object<PostedFile>({
    type: required(oneOf(["file"])),
    file: required(
      object<PostedFile["file"]>({
        file_data: required(matching(dataUrl, "a data URL with a type, in base64")),
        filename: maybe(string),
      }),
    ),
    ...breakpoint,
  }),
});

/** Arguments as a model wrote them: any text. An object in it has to be one that can be kept. */
const argumentsShape: Shape<string> = (input, reading) => {
  if (typeof input !== "string") return reading.report("invalid_type", "must be a string of JSON");
  const parsed = objectIn(input);
  const kept = parsed === null ? {} : jsonObject(parsed, reading);
  return typeof kept === "symbol" ? kept : input;
};

/** The object in a text; `null` when there is none. */
function objectIn(text: string): { readonly [key: string]: unknown } | null {
  try {
    const value: unknown = JSON.parse(text);
    return isPlainObject(value) ? value : null;
  } catch {
    return null;
  }
}

const callShape: Shape<PostedCall> = lenient(
  ["id", "type", "function"],
  object<PostedCall>({
    id: required(string),
    type: fallback(oneOf(["function"]), "function"),
    function: required(
      lenient(
        ["name", "arguments"],
        object<PostedCall["function"]>({ name: required(string), arguments: required(argumentsShape) }),
      ),
    ),
  }),
);

const instructions = { content: required(textsShape), name: maybe(string) };

const repliedParts = content(
  variant<PostedText | PostedRefusal, "type">("type", {
    text: textShape,
    refusal: object<PostedRefusal>({ type: required(oneOf(["refusal"])), refusal: required(string) }),
  }),
);

export const postedMessageShape: Shape<PostedMessage> = variant<PostedMessage, "role">("role", {
  system: object<PostedInstructions<"system">>({ role: required(oneOf(["system"])), ...instructions }),
  developer: object<PostedInstructions<"developer">>({ role: required(oneOf(["developer"])), ...instructions }),
  user: object<PostedUser>({
    role: required(oneOf(["user"])),
    content: required(content(partShape)),
    name: maybe(string),
  }),
  assistant: lenient(
    ["role", "content", "refusal", "tool_calls", "function_call", "audio", "name"],
    object<PostedAssistant>({
      role: required(oneOf(["assistant"])),
      content: maybe(repliedParts),
      refusal: maybe(string),
      tool_calls: maybe(array(callShape)),
      function_call: none("use tool_calls"),
      audio: none("what a model said aloud is not kept here; send its text"),
      name: maybe(string),
    }),
  ),
  tool: object<PostedAnswer>({
    role: required(oneOf(["tool"])),
    tool_call_id: required(string),
    content: required(textsShape),
    name: maybe(string),
  }),
});

/** A posted message as one of ours. */
export function messageOf(posted: PostedMessage): Message {
  const rest = { name: posted.name === "" ? null : posted.name };
  switch (posted.role) {
    case "system":
    case "developer":
      return system(typeof posted.content === "string" ? posted.content : posted.content.map(textOf), rest);
    case "user":
      return user(typeof posted.content === "string" ? posted.content : posted.content.map(partOf), rest);
    case "assistant":
      return assistant(saidIn(posted), { ...rest, toolCalls: (posted.tool_calls ?? []).map(callOf) });
    case "tool":
      return toolResult(posted.tool_call_id, textIn(posted.content));
  }
}

function textOf({ text }: PostedText) {
  return textPart(text);
}

/** The API has one text as the answer to a call, in pieces or not. */
function textIn(given: string | readonly PostedText[]): string {
  return typeof given === "string" ? given : given.map(({ text }) => text).join("");
}

function saidIn({ content: given, refusal }: PostedAssistant) {
  if (typeof given === "string" && refusal === null) return given;
  const parts = typeof given === "string" ? [textPart(given)] : (given ?? []).map(repliedPart);
  const all = refusal === null ? parts : [...parts, textPart(refusal, { kind: "refusal" })];
  return all.length === 0 ? "" : all;
}

function repliedPart(part: PostedText | PostedRefusal) {
  return part.type === "text" ? textOf(part) : textPart(part.refusal, { kind: "refusal" });
}

function partOf(part: PostedPart): UserPart {
  switch (part.type) {
    case "text":
      return textOf(part);
    case "image_url": {
      const { url, detail } = part.image_url;
      const { mimeType, data } = bytesIn(url);
      const image = mimeType === null ? imageFromUrl(url) : imageFromBase64(data, mimeType);
      return imagePart(image, { detail: detail ?? "auto" });
    }
    case "input_audio": {
      const { data, format } = part.input_audio;
      return filePart({ type: "base64", data }, { mimeType: format === "wav" ? "audio/wav" : "audio/mpeg" });
    }
    case "file": {
      const { mimeType, data } = bytesIn(part.file.file_data);
      return filePart({ type: "base64", data }, { mimeType, name: part.file.filename });
    }
  }
}

/** What a data URL holds; a type of `null`: it is none. */
function bytesIn(url: string): { readonly mimeType: string | null; readonly data: string } {
  const [, mimeType = null, data = ""] = dataUrl.exec(url) ?? [];
  return { mimeType, data };
}

function callOf({ id, function: { name, arguments: rawArguments } }: PostedCall): ToolCallInput {
  const found = read(jsonObject, objectIn(rawArguments));
  return { id, name, arguments: "value" in found ? found.value : null, rawArguments };
}
