// `everturn chat`: opens the workspace and runs the interactive conversation.

import type { CommandContext } from "./context.ts";

import { withWorkspace } from "./context.ts";

export async function chat(
  context: CommandContext,
  options: { readonly session: string | null; readonly newest: boolean },
): Promise<number> {
  const { runChat } = await import("../chat/index.ts");
  const colours = context.out.enabled;
  return withWorkspace(context, (workspace) => runChat(workspace, { ...options, colours }));
}
