// Messages in OpenAI's format, and their conversion to messages of the library. One posted message becomes one message,
// so that the index in an error path is valid for both.
//
// Rules
//   1. An unknown field is rejected by its path. In assistant messages and their calls it is ignored: clients post
//      replies back with fields that their helpers added (`parsed`, `annotations`).
//   2. No local file and no file of the provider's account: an image is a URL or base64, any other file is base64.
//   3. The text of call arguments is kept exactly, whatever it is. Text that is not a JSON object gives
//      `arguments: null`.
//   4. `name` of a tool message is not used; the call id determines the tool.

import type { Message, ToolCallInput, UserPart } from "../../../core/model/internal.ts";
import type { Shape } from "../../../core/model/parse/reading.ts";

import {
  assistant,
  filePart,
  imageDetails,
  imageFromBase64,
  imageFromUrl,
  imagePart,
  system,
  textPart,
  toolResult,
  user,
} from "../../../core/model/internal.ts";
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
} from "../../../core/model/parse/reading.ts";
import { textOrParts, lenient, matching, maybe, unsupportedField } from "./fields.ts";

// The posted types. `prompt_cache_breakpoint` is accepted and ignored.

type PostedText = { readonly type: "text"; readonly text: string; readonly prompt_cache_breakpoint: unknown };
type PostedImage = {
  readonly type: "image_url";
  readonly image_url: { readonly url: string; readonly detail: (typeof imageDetails)[number] | null };
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
type PostedToolResult = Named & {
  readonly role: "tool";
  readonly tool_call_id: string;
  readonly content: string | readonly PostedText[];
};
export type PostedMessage =
  | PostedInstructions<"system">
  | PostedInstructions<"developer">
  | PostedUser
  | PostedAssistant
  | PostedToolResult;

type PostedCall = {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
};

const breakpoint = { prompt_cache_breakpoint: maybe<unknown>(json) };
const textShape = object<PostedText>({ type: required(oneOf(["text"])), text: required(string), ...breakpoint });
const textContentShape = textOrParts(variant<PostedText, "type">("type", { text: textShape }));

const base64 = "[A-Za-z0-9+/]+={0,2}";
/** A data URL in base64 (RFC 2397): the media type and the data. */
const dataUrl = new RegExp(`^data:([\\w.+-]+/[\\w.+-]+)(?:;[\\w.+-]+=[\\w.+-]+)*;base64,(${base64})$`);

/** An https URL or a data URL of an image type. request.ts applies the content policy to it. */
const imageUrl: Shape<string> = (input, reading) => {
  if (typeof input !== "string") return reading.report("invalid_type", "must be a URL");
  if (/^https:\/\/[^\s]+$/i.test(input)) return input;
  const type = dataUrl.exec(input)?.[1];
  return type !== undefined && type.startsWith("image/")
    ? input
    : reading.report("invalid_image", "must be an https: URL, or a data: URL of an image in base64");
};

const partShape: Shape<PostedPart> = variant<PostedPart, "type">("type", {
  text: textShape,
  image_url: object<PostedImage>({
    type: required(oneOf(["image_url"])),
    image_url: required(
      object<PostedImage["image_url"]>({ url: required(imageUrl), detail: maybe(oneOf(imageDetails)) }),
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

/**
 * Arguments as the model wrote them: any text. If it is a JSON object, the object must be within the limits of stored
 * data.
 */
const argumentsShape: Shape<string> = (input, reading) => {
  if (typeof input !== "string") return reading.report("invalid_type", "must be a string of JSON");
  const parsed = objectIn(input);
  const checked = parsed === null ? {} : jsonObject(parsed, reading);
  return typeof checked === "symbol" ? checked : input;
};

/** Parses a text as a JSON object; `null` if it is not one. */
function objectIn(text: string): { readonly [key: string]: unknown } | null {
  try {
    const value: unknown = JSON.parse(text);
    return isPlainObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** A call of an earlier reply. Fields that client helpers added are ignored (rule 1). */
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

const instructionFields = { content: required(textContentShape), name: maybe(string) };

const assistantParts = textOrParts(
  variant<PostedText | PostedRefusal, "type">("type", {
    text: textShape,
    refusal: object<PostedRefusal>({ type: required(oneOf(["refusal"])), refusal: required(string) }),
  }),
);

/** The reader of one message. */
export const postedMessageShape: Shape<PostedMessage> = variant<PostedMessage, "role">("role", {
  system: object<PostedInstructions<"system">>({ role: required(oneOf(["system"])), ...instructionFields }),
  developer: object<PostedInstructions<"developer">>({ role: required(oneOf(["developer"])), ...instructionFields }),
  user: object<PostedUser>({
    role: required(oneOf(["user"])),
    content: required(textOrParts(partShape)),
    name: maybe(string),
  }),
  assistant: lenient(
    ["role", "content", "refusal", "tool_calls", "function_call", "audio", "name"],
    object<PostedAssistant>({
      role: required(oneOf(["assistant"])),
      content: maybe(assistantParts),
      refusal: maybe(string),
      tool_calls: maybe(array(callShape)),
      function_call: unsupportedField("use tool_calls"),
      audio: unsupportedField("audio of the model is not stored; send its transcript as content"),
      name: maybe(string),
    }),
  ),
  tool: object<PostedToolResult>({
    role: required(oneOf(["tool"])),
    tool_call_id: required(string),
    content: required(textContentShape),
    name: maybe(string),
  }),
});

/** Converts a posted message. `developer` becomes `system`. */
export function messageOf(posted: PostedMessage): Message {
  const options = { name: posted.name === "" ? null : posted.name };
  switch (posted.role) {
    case "system":
    case "developer":
      return system(typeof posted.content === "string" ? posted.content : posted.content.map(postedTextPart), options);
    case "user":
      return user(typeof posted.content === "string" ? posted.content : posted.content.map(partOf), options);
    case "assistant":
      return assistant(assistantContent(posted), { ...options, toolCalls: (posted.tool_calls ?? []).map(callOf) });
    case "tool":
      return toolResult(posted.tool_call_id, textIn(posted.content));
  }
}

function postedTextPart({ text }: PostedText) {
  return textPart(text);
}

/** A tool result is one text; several text parts are concatenated. */
function textIn(content: string | readonly PostedText[]): string {
  return typeof content === "string" ? content : content.map(({ text }) => text).join("");
}

/**
 * Text, parts and refusal of an assistant message as content of the library. A refusal becomes a text part of kind
 * `refusal`.
 */
function assistantContent({ content: postedContent, refusal }: PostedAssistant) {
  if (typeof postedContent === "string" && refusal === null) return postedContent;
  const parts =
    typeof postedContent === "string" ? [textPart(postedContent)] : (postedContent ?? []).map(assistantPart);
  const allParts = refusal === null ? parts : [...parts, textPart(refusal, { kind: "refusal" })];
  return allParts.length === 0 ? "" : allParts;
}

function assistantPart(part: PostedText | PostedRefusal) {
  return part.type === "text" ? postedTextPart(part) : textPart(part.refusal, { kind: "refusal" });
}

/** Converts a part of a user message. Audio becomes a file with an audio media type. */
function partOf(part: PostedPart): UserPart {
  switch (part.type) {
    case "text":
      return postedTextPart(part);
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

/** The media type and data of a data URL; `mimeType: null` if it is another URL. */
function bytesIn(url: string): { readonly mimeType: string | null; readonly data: string } {
  const [, mimeType = null, data = ""] = dataUrl.exec(url) ?? [];
  return { mimeType, data };
}

/** Converts a call. `arguments` is `null` if the text is not a JSON object within the limits of stored data. */
function callOf({ id, function: { name, arguments: rawArguments } }: PostedCall): ToolCallInput {
  const parsed = read(jsonObject, objectIn(rawArguments));
  return { id, name, arguments: "value" in parsed ? parsed.value : null, rawArguments };
}
