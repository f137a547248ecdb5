// Issues: violations in a value, each with its path. Used by parse, validate and the serializer.

import type { WordOf } from "../parse/shape.ts";

/** A position in a value: `["messages", 0, "content"]`. The empty path is the value itself. */
export type Path = readonly (string | number)[];

/**
 * One violation in a value: its position (`path`), the violated rule (`code`, for programs) and what to do about it
 * (`message`, for people).
 */
export type Issue = {
  /** The place in the value; empty for the value itself. */
  readonly path: Path;
  /** The kind of violation. */
  readonly code: IssueCode;
  /** A sentence for people. */
  readonly message: string;
};

/** The rule that a value violates. A closed list, so the compiler checks that a switch over it is exhaustive. */
export type IssueCode = WordOf<typeof issueCodes>;

export const issueCodes = [
  // The shape of a value: parse, constructors, serializer.
  "invalid_type",
  "required",
  "unknown",
  "unknown_field",
  "not_json",
  "cycle",
  "credential",
  "too_deep",
  "too_large",
  // A stored text: serializer.
  "malformed",
  "missing",
  "missing_type_tag",
  "unknown_type_tag",
  "newer_version",
  // The meaning of a value: validate.
  "empty",
  "duplicate_name",
  "out_of_range",
  "must_be_positive",
  "invalid_shape",
  "requires_json_schema",
  "invalid_part_type",
  "image_in_system_message",
  "reserved_tool_name",
  "invalid_format",
  "not_a_string",
  "not_a_map",
  "not_a_list",
  "required_for_status",
  "error_required_for_status",
  "not_allowed_for_status",
  "unanswered_tool_call",
  "unknown_tool_call_id",
  "duplicate_tool_call_id",
  "invalid_image",
  "required_for_operation",
  "not_allowed_for_operation",
  "must_be_empty",
  "invalid_count",
  // Capabilities that the model or the provider lacks.
  "tools_disabled",
  "json_native_disabled",
  "vision_disabled",
  "images_disabled",
  "unsupported_image_operation",
  "unsupported_image_format",
  "image_too_large",
  "missing_mime_type",
  // A violation of a schema of the caller.
  "invalid_value",
  // Arithmetic: sums of usage.
  "overflow",
] as const;

/** Issues of values that have the right type and cannot be stored. */
export const isAboutStorage: ReadonlySet<IssueCode> = new Set<IssueCode>([
  "not_json",
  "cycle",
  "credential",
  "too_deep",
  "too_large",
]);

/** Formats a path for people: `messages[0].content`. The empty path is `(value)`. */
export function renderPath(path: Path): string {
  let text = "";
  for (const key of path) {
    if (typeof key === "number") text += `[${key}]`;
    else if (/^[A-Za-z_$][\w$]*$/.test(key)) text += text === "" ? key : `.${key}`;
    else text += `[${JSON.stringify(key)}]`;
  }
  return text === "" ? "(value)" : text;
}

/** Formats an issue as one line: `messages[0].toolCallId: a tool message needs the id of the call it answers`. */
export function renderIssue(issue: Issue): string {
  return `${renderPath(issue.path)}: ${issue.message}`;
}
