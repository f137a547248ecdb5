// What a request asks for that its model is known not to do. What nobody knows is never a reason to refuse.

import type { Issue, Message, ModelName, ModelRequest } from "../../model/internal.ts";

/** Everything a model is known not to be able to do of a request. */
export function missingCapabilities(
  model: ModelName | null,
  { tools, responseFormat, messages }: Pick<ModelRequest, "tools" | "responseFormat" | "messages">,
): readonly Issue[] {
  if (model === null || typeof model === "string" || model.capabilities === null) return [];
  const { tools: canCall, jsonNative, vision } = model.capabilities;
  const name = model.id ?? "the model";
  const issues: Issue[] = [];
  if (canCall === false && tools.length > 0) {
    issues.push({ path: ["tools"], code: "tools_disabled", message: `${name} cannot call tools` });
  }
  if (jsonNative === false && responseFormat?.type === "json_schema") {
    issues.push({
      path: ["responseFormat"],
      code: "json_native_disabled",
      message: `${name} cannot answer in a schema`,
    });
  }
  if (vision === false && messages.some(hasImage)) {
    issues.push({ path: ["messages"], code: "vision_disabled", message: `${name} cannot see images` });
  }
  return issues;
}

function hasImage({ content }: Message): boolean {
  return typeof content !== "string" && content.some(({ type }) => type === "image");
}
