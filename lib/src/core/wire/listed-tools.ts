// Gathers the provider tools of a request in one list, for encoders.

import type { ModelRequest, ProviderTool } from "../model/internal.ts";

/**
 * The request with the provider tools of `tools` moved to `providerTools`, where encoders expect them. Provider options
 * of a tool are fields of its definition.
 */
export function withProviderTools(request: ModelRequest): ModelRequest {
  const moved = request.tools.flatMap(({ providerTool, providerOptions = {} }): readonly ProviderTool[] => {
    if (providerTool === undefined) return [];
    const options = Object.entries(providerOptions).find(([provider]) => provider === providerTool.provider)?.[1];
    return [{ ...providerTool, options: { ...providerTool.options, ...options } }];
  });
  if (moved.length === 0) return request;
  return {
    ...request,
    tools: request.tools.filter(({ providerTool }) => providerTool === undefined),
    providerTools: [...request.providerTools, ...moved],
  };
}
