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
import type { Infer, InferUnion, Shape } from "../../../core/model/parse/reading.ts";

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
  either,
  fallback,
  isPlainObject,
  json,
  jsonObject,
  object,
  oneOf,
  readOrNull,
  required,
  string,
  variant,
} from "../../../core/model/parse/reading.ts";
import { textOrParts, lenient, matching, maybe, unsupportedField } from "./fields.ts";

// `prompt_cache_breakpoint` is accepted and ignored.
const breakpoint = { prompt_cache_breakpoint: maybe<unknown>(json) };
const textCase = { text: { text: required(string), ...breakpoint } };
type PostedText = InferUnion<"type", typeof textCase>;
const textContentShape = textOrParts(variant("type", textCase));

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

const partCases = {
  ...textCase,
  image_url: {
    image_url: required(object({ url: required(imageUrl), detail: maybe(oneOf(imageDetails)) })),
    ...breakpoint,
  },
  input_audio: {
    input_audio: required(
      object({
        data: required(matching(new RegExp(`^${base64}$`), "base64")),
        format: required(oneOf(["wav", "mp3"])),
      }),
    ),
    ...breakpoint,
  },
  file: {
    file: required(
      object({
        file_data: required(matching(dataUrl, "a data URL with a type, in base64")),
        filename: maybe(string),
      }),
    ),
    ...breakpoint,
  },
};
type PostedPart = InferUnion<"type", typeof partCases>;

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
const callFields = {
  id: required(string),
  type: fallback(oneOf(["function"]), "function"),
  function: required(
    lenient(["name", "arguments"], object({ name: required(string), arguments: required(argumentsShape) })),
  ),
};
type PostedCall = Infer<typeof callFields>;

const named = { name: maybe(string) };
const instructionFields = { content: required(textContentShape), ...named };

const assistantPartCases = { ...textCase, refusal: { refusal: required(string) } };
type AssistantPart = InferUnion<"type", typeof assistantPartCases>;

const assistantFields = {
  content: maybe(textOrParts(variant("type", assistantPartCases))),
  refusal: maybe(string),
  tool_calls: maybe(array(lenient(Object.keys(callFields), object(callFields)))),
  function_call: unsupportedField("use tool_calls"),
  audio: unsupportedField("audio of the model is not stored; send its transcript as content"),
  ...named,
};

const messageCases = {
  system: instructionFields,
  developer: instructionFields,
  user: { content: required(textOrParts(variant("type", partCases))), ...named },
  assistant: assistantFields,
  tool: { tool_call_id: required(string), content: required(textContentShape), ...named },
};
export type PostedMessage = InferUnion<"role", typeof messageCases>;
type PostedAssistant = Extract<PostedMessage, { readonly role: "assistant" }>;

const messageShape = variant("role", messageCases);

/** The reader of one message. */
export const postedMessageShape: Shape<PostedMessage> = either(
  (input) => isPlainObject(input) && input["role"] === "assistant",
  lenient(["role", ...Object.keys(assistantFields)], messageShape),
  messageShape,
);

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

function assistantPart(part: AssistantPart) {
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
  return { id, name, arguments: readOrNull(jsonObject, objectIn(rawArguments)), rawArguments };
}
