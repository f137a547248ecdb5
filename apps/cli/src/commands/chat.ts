// `everturn chat`: opens the workspace and runs the interactive conversation.

import type { CommandContext } from "./context.ts";
import type { WhenBusy } from "everturn/engine";

import { withWorkspace } from "./context.ts";

/** The values of `--when-busy`. */
const busyPolicies: readonly WhenBusy[] = ["steer", "queue", "interrupt", "reject"];

export async function chat(
  context: CommandContext,
  options: { readonly session: string | null; readonly newest: boolean; readonly whenBusy: string | null },
): Promise<number> {
  const { runChat } = await import("../chat/index.ts");
  const whenBusy = busyPolicies.find((policy) => policy === options.whenBusy) ?? "steer";
  const colours = context.out.enabled;
  return withWorkspace(context, (workspace) => runChat(workspace, { ...options, whenBusy, colours }));
}
