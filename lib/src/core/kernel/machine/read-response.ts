// Reads recorded responses (journal rows) back from JSON. A field that an older release did not write gets its default
// (S1); any other value of the wrong shape is rejected with the path of every issue.

import type { Result, ValidationFailure } from "../../model/internal.ts";
import type { EffectResponse } from "./response.ts";

import { invalidArgument, isAboutStorage, renderIssue, validationFailure } from "../../model/internal.ts";
import { failed, ok, read } from "../../model/parse/reading.ts";
import { responseShape } from "./response.ts";

/** Reads a recorded effect response from JSON. Fields that older releases did not write get their defaults. */
export function readResponse(input: unknown): Result<EffectResponse, ValidationFailure> {
  const result = read(responseShape, input);
  if ("value" in result) return ok(result.value);
  return failed(validationFailure("invalid_data", { issues: result.issues, metadata: { type: "response" } }));
}

/**
 * The response with the defaults of fields that an older release did not write. Throws `MisuseError` with the path of
 * the first field that has another shape. Data that only cannot be stored, such as arguments nested too deeply, pass:
 * the machine reduces them (`storableReply`).
 */
export function completeResponse(response: EffectResponse): EffectResponse {
  const result = readResponse(response);
  if (result.ok) return result.value;
  const wrong = result.failure.issues.find(({ code }) => !isAboutStorage.has(code));
  if (wrong === undefined) return response;
  const message = `handleResponse: the response ${response.type} to ${response.id}: ${renderIssue(wrong)}`;
  throw invalidArgument(message, wrong.path);
}
