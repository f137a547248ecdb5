// Describes the engines of a runtime for pages: model, instructions and tools. An engine contains no API key, and its
// settings, headers and context are left out.

import type { Engine, Tool } from "../../core/engine/internal.ts";
import type { EngineView, ModelName, ToolView } from "../../core/model/internal.ts";

/** The engines of a runtime, in the order of their declaration. */
export function engineViews(engines: { readonly [name: string]: Engine }): readonly EngineView[] {
  return Object.entries(engines).map(([name, { model, adapter, instructions, tools }]) => ({
    name,
    model: model === null ? null : modelText(model, adapter?.provider ?? null),
    instructions,
    tools: tools.map(toolView),
  }));
}

/** The model as `provider:model`. A name without a provider is a model of the adapter. */
function modelText(model: ModelName, adapterProvider: string | null): string {
  if (typeof model === "string") return model;
  const provider = model.provider ?? adapterProvider;
  const id = model.id ?? "";
  return provider === null ? id : `${provider}:${id}`;
}

function toolView({ name, description, schema, needsApproval, approval, replay }: Tool): ToolView {
  return {
    name,
    description,
    inputSchema: schema,
    approval: approval ?? (needsApproval ? "always" : "never"),
    rerun: replay,
  };
}
