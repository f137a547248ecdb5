// Checks a model request against the known capabilities of its model, before the request costs anything.
//
// Only a capability that is `false` refuses a request. `null` (unknown) never does: a model that the catalog does not
// know must stay usable.

import type { Issue, Message, ModelName, ModelRequest } from "../../model/internal.ts";

/** Returns one issue for each capability that the request needs and the model is known not to have. */
export function missingCapabilities(
  model: ModelName | null,
  { tools, responseFormat, messages }: Pick<ModelRequest, "tools" | "responseFormat" | "messages">,
): readonly Issue[] {
  if (model === null || typeof model === "string" || model.capabilities === null) return [];
  const { tools: canCallTools, jsonNative, vision } = model.capabilities;
  const modelName = model.id ?? "the model";
  const issues: Issue[] = [];
  if (canCallTools === false && tools.length > 0) {
    issues.push({ path: ["tools"], code: "tools_disabled", message: `${modelName} cannot call tools` });
  }
  if (jsonNative === false && responseFormat?.type === "json_schema") {
    issues.push({
      path: ["responseFormat"],
      code: "json_native_disabled",
      message: `${modelName} cannot produce output that follows a JSON Schema`,
    });
  }
  if (vision === false && messages.some(hasImage)) {
    issues.push({ path: ["messages"], code: "vision_disabled", message: `${modelName} does not accept images` });
  }
  return issues;
}

function hasImage({ content }: Message): boolean {
  return typeof content !== "string" && content.some(({ type }) => type === "image");
}
