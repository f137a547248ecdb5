// `everturn chat`: opens the workspace and runs the interactive conversation.

import type { CommandContext } from "./context.ts";

import { tenantOf, withWorkspace } from "./context.ts";

export async function chat(
  context: CommandContext,
  request: { readonly session: string | null; readonly newest: boolean },
): Promise<number> {
  const { runChat } = await import("../chat/index.ts");
  const options = { ...request, tenant: tenantOf(context), colours: context.out.enabled };
  return withWorkspace(context, (workspace) => runChat(workspace, options));
}
